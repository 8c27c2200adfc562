import numpy as np

from ..errors import ConfigError
from ..randomness import generator
from .labelled import DataSplit, Rows
from .population import Population


class LongTail(Population):
    """The paper's prior shift: every client has a long tail over the classes of its own.

    A client holds a random `share` of the training data, by default 0.1, trimmed so that its
    classes, in an order of its own, fall off exponentially (Cao et al., 2019) until the last has
    `ratio` times as many samples as the first: with 0.01, about 2.5 % of the data. With `head` in
    place of `share` the first class has so many samples, or all that there are. A client's data
    depend on the seed and its number alone, so the population can be of any size. The paper's
    clients are new in every round; with 10**10 of them so are these.
    """

    def __init__(
        self,
        split: DataSplit,
        clients: int,
        seed: int,
        share: float | None = None,
        ratio: float = 0.01,
        head: int | None = None,
    ) -> None:
        super().__init__(split, clients)
        if head is not None and share is not None:
            raise ConfigError("population.head is in place of population.share: give one of them")
        share = 0.1 if share is None else share
        for name, value in (("share", share), ("ratio", ratio)):
            if not 0 < value <= 1:
                raise ConfigError(f"population.{name} must be above 0 and at most 1 (got {value})")
        if head is not None and head < 1:
            raise ConfigError(f"population.head must be at least 1 (got {head})")
        self.seed, self.share, self.ratio, self.head = seed, share, ratio, head
        self._of_class = self.train.rows_of_class()

    def counts(self, order: Rows) -> list[int]:
        """How many samples of each class, given the classes from the most to the least frequent."""
        counts = [0] * self.train.classes
        for place, c in enumerate(order):
            there = len(self._of_class[c])
            most = self.share * there if self.head is None else min(self.head, there)
            counts[c] = int(most * self.ratio ** (place / max(1, self.train.classes - 1)))
        return counts

    def rows(self, client: int) -> Rows:
        draw = self._draw(client)
        counts = self.counts(draw.permutation(self.train.classes))
        return np.concatenate(
            [
                draw.choice(rows, n, replace=False)
                for rows, n in zip(self._of_class, counts, strict=True)
            ]
        )

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        """The order of the classes is drawn first, and the order tells how many of each."""
        return sum(self.counts(self._draw(client).permutation(self.train.classes)))

    def _draw(self, client: int) -> np.random.Generator:
        return generator(self.seed, "long-tail", client=client)

    def if_empty(self) -> str:
        size = f"share (now {self.share:g})" if self.head is None else f"head (now {self.head})"
        return f"raise population.{size} or population.ratio ({self.ratio:g})"
