"""What is there of a data set, at a glance or read to the last byte."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import DataError
from .catalogue import CATALOGUE
from .get import made
from .images import ImageFiles
from .load import require_name
from .sets import open_sources
from .sources import Source

BLOCK = 256


@dataclass(frozen=True)
class Domain:
    name: str
    train: int
    test: int
    shape: tuple[int, ...]
    """Of an image as it is read."""


def check(name: str, root: Path) -> tuple[list[Domain], tuple[str, ...]]:
    """Read everything; the domains of it and the notes on it."""
    require_name(name)
    sources, notes = open_sources(name, root, CATALOGUE[name].per_domain or 0)
    found = []
    for domain, (train, test) in sources.items():
        shape, _ = _read(train), _read(test)
        found.append(Domain(domain, len(train), len(test), shape))
    return found, notes


def glance(name: str, root: Path) -> str:
    """no, complete, how much of it, or broken; from the heads of the files."""
    entry = CATALOGUE[name]
    if entry.parts:
        words = {part: glance(part, root) for part in entry.parts}
        lacking = [
            part
            for part, word in words.items()
            if word == "broken" or (word == "no" and part != "synth-digits")  # which is rendered
        ]
        if lacking:
            return f"not {', '.join(lacking)}"
        return "complete" if set(words.values()) == {"complete"} else "in part"
    try:
        if not any(made(item, root) for item in entry.downloads):
            return "no"
        sources, _ = open_sources(name, root, entry.per_domain or 0)
        counts = {domain: (len(train), len(test)) for domain, (train, test) in sources.items()}
    except (DataError, OSError):
        return "broken"
    if entry.images:
        complete = all(sum(counts[domain]) == images for domain, images in entry.images)
    else:
        complete = bool(entry.train) and counts[name] == (entry.train, entry.test)
    return "complete" if complete else sizes(*map(sum, zip(*counts.values(), strict=True)))


def sizes(train: int, test: int) -> str:
    return f"{train:,} / {test:,}"


def _read(source: Source) -> tuple[int, ...]:
    """In blocks, where the images are files of their own and may not fit the memory together."""
    if not isinstance(source, ImageFiles):
        return source.take().x.shape[1:]
    for start in range(0, len(source), BLOCK):
        source.take(np.arange(start, min(start + BLOCK, len(source))))
    return 3, source.side, source.side
