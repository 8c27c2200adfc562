import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, DataError
from ..randomness import entropy
from .labelled import DataSplit, LabelledData, Rows, Samples

MOST = 10**18


@dataclass(frozen=True)
class TestSet:
    """Data to test on; with an owner, the data of that client, met with its own layers."""

    __test__ = False  # not a test case, whatever pytest thinks of its name

    name: str
    samples: Samples
    owner: int | None = None


class Population:
    """Hands out the data of client k in round t, lazily and always the same.

    It may have 10**10 members: nothing loops over them or allocates by their number, except where
    all data are dealt out among them (`Partition`).
    """

    def __init__(self, split: DataSplit, size: int) -> None:
        if not 1 <= size <= MOST:
            raise ConfigError(f"population.clients must be from 1 to {MOST:.0e} (got {size})")
        self.split = split
        self.size = size

    @property
    def train(self) -> LabelledData:
        return self.split.train

    def samples(self, client: int, round: int) -> Samples:  # noqa: A002
        """The training data of a client in a round, never empty."""
        if not 0 <= client < self.size:
            raise DataError(f"there is no client {client}: they go from 0 to {self.size - 1}")
        rows = np.asarray(self.rows(client), dtype=np.int64)
        if len(rows) == 0:
            raise DataError(f"client {client} has no data; {self.if_empty()}")
        if rows.min() < 0 or rows.max() >= len(self.train):
            raise DataError(f"client {client} has rows beyond the {len(self.train)} samples")
        return Samples(self.train, rows)

    def rows(self, client: int) -> Rows:
        raise NotImplementedError

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        """How many samples a client has in a round; None if only drawing them would tell."""
        return None

    def if_empty(self) -> str:
        """What to change so that no client is without data."""
        return "take fewer clients or more data"

    def tests(self, round: int) -> list[TestSet]:  # noqa: A002
        """What a round is tested on: one set for each domain of the test data, else one."""
        test = self.split.test
        if test.domain is None:
            return [TestSet("test", test.all_rows())]
        rows_of = rows_of_domain(test)
        return [
            TestSet(name, Samples(test, rows_of[d]))
            for d, name in enumerate(test.domains)
            if len(rows_of[d])
        ]

    def shift(self, round: int) -> dict[str, int] | None:  # noqa: A002
        """What changed at the start of this round, for the record."""
        return None


def require_enough(split: DataSplit, clients: int) -> None:
    """Refuse to deal out fewer samples than there are clients."""
    if clients > len(split.train):
        raise DataError(
            f"{clients} clients cannot share {len(split.train)} samples: some would have no data; "
            "take fewer, or a population that draws: long-tail, or samples_per_client"
        )


def rows_of_domain(data: LabelledData) -> list[Rows]:
    """For each domain, the rows that come from it."""
    domain = np.zeros(0) if data.domain is None else data.domain.numpy()
    return [np.flatnonzero(domain == d) for d in range(len(data.domains))]


class Partition(Population):
    """A population whose members' rows are listed: as many as there are lists."""

    def __init__(self, split: DataSplit, rows: Sequence[Rows], if_empty: str = "") -> None:
        super().__init__(split, len(rows))
        self._rows = rows
        self._if_empty = if_empty
        for client in range(len(rows)):
            self.samples(client, 1)  # refuse an empty client now, not in round 40

    def rows(self, client: int) -> Rows:
        return self._rows[client]

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return len(self._rows[client])

    def if_empty(self) -> str:
        return self._if_empty or super().if_empty()


def sample_cohort(seed: int, round: int, population: int, cohort: int) -> list[int]:  # noqa: A002
    """The clients of a round, drawn without replacement, in rising order."""
    require_cohort(population, cohort)
    return sorted(itertools.islice(candidates(seed, round, population, cohort), cohort))


def candidates(seed: int, round: int, population: int, cohort: int) -> Iterator[int]:  # noqa: A002
    """All members in the random order of a round, its cohort first; costs what is taken of it."""
    draw = random.Random(entropy(seed, "cohort", round))
    first = draw.sample(range(population), cohort)
    yield from first
    # Then a shuffle that remembers only what it has moved: the population may be of any size.
    drawn, moved = set(first), dict[int, int]()
    for place in range(population):
        other = draw.randrange(place, population)
        client = moved.get(other, other)
        moved[other] = moved.pop(place, place)
        if client not in drawn:
            yield client


def require_cohort(population: int, cohort: int) -> None:
    """Refuse to call nobody, or more clients than there are."""
    if not 1 <= cohort <= population:
        raise ConfigError(
            f"population.cohort is {cohort} but the population has {population} "
            f"client{'s' if population > 1 else ''}; set it between 1 and {population}"
        )
