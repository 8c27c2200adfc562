"""The sources of each data set by domain, and what must be said of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..labelled import Rows
from .catalogue import CATALOGUE
from .cifar10 import CLASS_NAMES as CIFAR10_CLASSES
from .cifar10 import read_cifar10
from .folders import DOMAINNET, OFFICE_CALTECH
from .idx import read_mnist
from .libsvm import read_usps
from .mat import read_svhn, read_synth_digits
from .mnist_m import read_mnist_m
from .sources import Part, Source

Sources = dict[str, tuple[Source, Source]]
"""Train and test of each domain."""

SINGLE: dict[str, Callable[[Path], tuple[Source, Source]]] = {
    "cifar10": read_cifar10,
    "mnist": read_mnist,
    "usps": read_usps,
    "svhn": read_svhn,
    "mnist-m": read_mnist_m,
    "synth-digits": read_synth_digits,
}
FOLDERS = {folders.name: folders for folders in (OFFICE_CALTECH, DOMAINNET)}
CLASS_NAMES = {
    "cifar10": CIFAR10_CLASSES,
    **{name: folders.class_names for name, folders in FOLDERS.items()},
}
"""Of the sets whose classes are no digits."""
DIGITS_FIVE = {
    "mnist": "mnist",
    "svhn": "svhn",
    "usps": "usps",
    "synth": "synth-digits",
    "mnist-m": "mnist-m",
}
"""Its domains, in FedBN's order, and the sets that they come from."""
RENDERED_TEST = 2_000


@dataclass(frozen=True)
class Rendered:
    """Drawn here, in place of SynthDigits."""

    count: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Rows | None = None) -> Part:
        from ..rendered import rendered_digits

        x, y = rendered_digits(self.count, self.seed)
        return Part(x.numpy(), y.numpy()).take(rows)


def open_sources(name: str, root: Path, per_domain: int) -> tuple[Sources, tuple[str, ...]]:
    """Train and test of each domain, and notes on them; a set without domains has one, its name."""
    if name in SINGLE:
        pair = SINGLE[name](root)
        return {name: pair}, _notes(name, *pair)
    if name in FOLDERS:
        return _open_folders(name, root)
    sources: Sources = {}
    notes: list[str] = []
    for domain, part in DIGITS_FIVE.items():
        if part == "synth-digits" and not any((root / "synth_digits").glob("*.mat")):
            sources[domain] = Rendered(per_domain, seed=0), Rendered(RENDERED_TEST, seed=1)
            notes.append(
                "synth: rendered in the style of SynthDigits, which is not in the data folder"
            )
        else:
            sources[domain] = SINGLE[part](root)
            notes += _notes(part, *sources[domain])
    return sources, tuple(notes)


def _open_folders(name: str, root: Path) -> tuple[Sources, tuple[str, ...]]:
    sources: Sources = {**FOLDERS[name].read(root)}
    notes = [
        f"{name}, {domain}: {found:,} of {images:,} images"
        for domain, images in CATALOGUE[name].images
        if (found := sum(map(len, sources[domain]))) != images
    ]
    return sources, (*notes, *FOLDERS[name].split_notes(root))


def _notes(name: str, train: Source, test: Source) -> tuple[str, ...]:
    entry = CATALOGUE[name]
    counted = ((train, entry.train, "training"), (test, entry.test, "test"))
    words = [
        f"{len(part):,} of {whole:,} {what}" for part, whole, what in counted if len(part) != whole
    ]
    return (f"{name}: {' and '.join(words)} images",) if words else ()
