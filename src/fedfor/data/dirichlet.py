import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, require_number
from ..randomness import generator
from .labelled import DataSplit, Rows
from .population import Partition, Population, require_enough

Shares = NDArray[np.float64]


class DirichletDraws(Population):
    """Each client draws class shares from a Dirichlet, then its samples (Hsu et al., 2019).

    Classes of equal size give Dirichlet(alpha, ..., alpha); others count by their size. Clients
    are drawn independently, so two may hold the same sample and there may be any number of them.
    """

    def __init__(
        self, split: DataSplit, clients: int, seed: int, alpha: float, samples_per_client: int
    ) -> None:
        super().__init__(split, clients)
        require_number("population", "alpha", alpha, above=0)
        require_number("population", "samples_per_client", samples_per_client, least=1)
        self.seed, self.alpha, self.samples_per_client = seed, alpha, samples_per_client
        self._of_class = [rows for rows in self.train.rows_of_class() if len(rows)]
        sizes = np.array([len(rows) for rows in self._of_class])
        self._concentration = alpha * len(sizes) * sizes / sizes.sum()

    def rows(self, client: int) -> Rows:
        draw = generator(self.seed, "dirichlet", client=client)
        shares = _dirichlet(draw, self._concentration)
        counts = draw.multinomial(self.samples_per_client, shares)
        return np.concatenate(
            # with replacement only where a class has fewer samples than are wanted
            [
                draw.choice(rows, n, replace=n > len(rows))
                for rows, n in zip(self._of_class, counts, strict=True)
            ]
        )

    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return self.samples_per_client


def dirichlet_split(
    split: DataSplit, clients: int, seed: int, alpha: float, min_samples: int = 1
) -> Partition:
    """Deal all training data out, each class by shares from Dirichlet(alpha) over the clients.

    Drawn again, up to 100 times, until every client has `min_samples`.
    """
    require_number("population", "alpha", alpha, above=0)
    require_enough(split, clients)
    way_out = (
        "raise population.alpha, take fewer clients, or set population.samples_per_client to draw "
        "clients independently"
    )
    for attempt in range(100):
        draw = generator(seed, "dirichlet-split", round=attempt)
        parts: list[list[Rows]] = [[] for _ in range(clients)]
        for rows in split.train.rows_of_class():
            shares = _dirichlet(draw, np.full(clients, alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int)
            for part, piece in zip(parts, np.split(draw.permutation(rows), cuts), strict=True):
                part.append(piece)
        rows_of = [np.concatenate(part) for part in parts]
        if min(len(rows) for rows in rows_of) >= min_samples:
            return Partition(split, rows_of, way_out)
    short = min(range(clients), key=lambda k: len(rows_of[k]))
    has = f"{len(rows_of[short])} samples" if len(rows_of[short]) else "no data"
    raise DataError(
        f"client {short} has {has}: Dirichlet({alpha:g}) over {clients} clients leaves some with "
        f"fewer than {min_samples} of {len(split.train)} samples, 100 times out of 100; {way_out}"
    )


def _dirichlet(draw: np.random.Generator, concentration: Shares) -> Shares:
    """Shares that sum to one, also where a tiny concentration makes every gamma underflow."""
    shares: Shares = draw.dirichlet(concentration)
    if not np.isfinite(shares).all() or shares.sum() == 0:
        shares = np.zeros(len(concentration))
        shares[draw.integers(len(concentration))] = 1.0
    total: np.float64 = shares.sum()
    return shares / total
