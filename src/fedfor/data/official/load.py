from functools import cache
from pathlib import Path

import numpy as np

from ...errors import DataError, nearest
from ..labelled import DataSplit, Rows
from .catalogue import CATALOGUE
from .prepare import by_domain, digits_28, whole
from .root import data_root
from .sets import FOLDERS, SINGLE, open_sources
from .sources import Part, Source

NAMES: tuple[str, ...] = tuple(CATALOGUE)


def load(name: str, per_domain: int | None = None) -> DataSplit:
    """An official data set, read from the data root.

    `per_domain`: how many training images of each domain; without it, as many as FedBN takes.
    """
    require_name(name)
    usual = CATALOGUE[name].per_domain
    if per_domain is not None and usual is None:
        raise DataError(f"{name}: it has no domains, so per_domain is not for it; leave it out")
    if per_domain is not None and per_domain < 1:
        raise DataError(f"{name}: per_domain must be 1 or more (got {per_domain})")
    return _load(name, per_domain or usual or 0, data_root())


def require_name(name: str) -> None:
    if name not in CATALOGUE:
        raise DataError(f"there is no data set '{name}'; {nearest(name, CATALOGUE)}")


@cache
def _load(name: str, per_domain: int, root: Path) -> DataSplit:
    sources, notes = open_sources(name, root, per_domain)
    if name in SINGLE:
        train, test = (source.take() for source in sources[name])
        return DataSplit(whole(name, "train", train), whole(name, "test", test), notes)
    trains: dict[str, Part] = {}
    tests: dict[str, Part] = {}
    for domain, (train_source, test_source) in sources.items():
        rows = _rows(name, domain, train_source, per_domain)
        trains[domain], tests[domain] = train_source.take(rows), test_source.take()
        if name not in FOLDERS:
            trains[domain], tests[domain] = digits_28(trains[domain]), digits_28(tests[domain])
    return DataSplit(by_domain(name, "train", trains), by_domain(name, "test", tests), notes)


def _rows(name: str, domain: str, source: Source, count: int) -> Rows:
    if count > len(source):
        raise DataError(
            f"{name}: {domain} has {len(source):,} training images, and per_domain asks for "
            f"{count:,}; ask for {len(source):,} or fewer"
        )
    if name in FOLDERS:  # lists that are in random order already
        return np.arange(count)
    return np.random.default_rng(0).permutation(len(source))[:count]
