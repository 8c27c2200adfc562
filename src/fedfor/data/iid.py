import numpy as np

from ..errors import require_number
from ..randomness import generator
from .labelled import DataSplit, Rows
from .population import Partition, Population, require_enough


class IidDraws(Population):
    """Each client draws its samples from all training data alike; there may be any number."""

    def __init__(self, split: DataSplit, clients: int, seed: int, samples_per_client: int) -> None:
        super().__init__(split, clients)
        require_number("population", "samples_per_client", samples_per_client, least=1)
        self.seed, self.samples_per_client = seed, samples_per_client

    def rows(self, client: int) -> Rows:
        draw = generator(self.seed, "iid", client=client)
        total = len(self.train)
        return draw.choice(total, self.samples_per_client, replace=self.samples_per_client > total)

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return self.samples_per_client


def iid_split(split: DataSplit, clients: int, seed: int) -> Partition:
    """Deal all training data out at random, alike in number."""
    require_enough(split, clients)
    rows = generator(seed, "iid-split").permutation(len(split.train))
    return Partition(split, np.array_split(rows, clients))
