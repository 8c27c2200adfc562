"""Office-Caltech-10 and DomainNet: folders of domains, in them folders of classes.

Who trains and who tests is in FedBN's lists or in DomainNet's own, where they are there; else the
files of each class are split 80 to 20, always the same way.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .images import ImageFiles
from .lists import words_by_line
from .pickles import read_pickle
from .problems import broken, missing, unread

SIDE = 256
SUFFIXES = (".jpg", ".jpeg", ".png")
Listing = list[tuple[Path, int]]


@dataclass(frozen=True)
class DomainFolders:
    name: str
    folder: str
    domains: dict[str, tuple[str, ...]]
    """What each domain's folder may be called."""
    classes: tuple[tuple[str, ...], ...]
    """What each class's folder may be called."""

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(names[0] for names in self.classes)

    def read(self, root: Path) -> dict[str, tuple[ImageFiles, ImageFiles]]:
        """Train and test of each domain; a part of train is taken from the front."""
        try:
            if not (root / self.folder).is_dir():
                raise missing(self.name, root / self.folder)
            return {domain: self._domain(root, domain) for domain in self.domains}
        except OSError as error:
            place = Path(error.filename or root / self.folder)
            raise unread(self.name, place, error) from error

    def split_notes(self, root: Path) -> list[str]:
        """What is to be said where the split is not FedBN's."""
        lists = [self._list(root, domain) for domain in self.domains]
        notes = []
        if None in lists:
            notes.append(f"{self.name}: our own fixed split, 80 to 20; there are no split lists")
        if any(path.suffix == ".txt" for path in lists if path is not None):
            notes.append(f"{self.name}: split by the publisher's lists, 70 to 30, not by FedBN's")
        return notes

    def _domain(self, root: Path, domain: str) -> tuple[ImageFiles, ImageFiles]:
        if (list_ := self._list(root, domain)) is None:
            train, test = self._own_split(root / self.folder, domain)
        else:
            lists = list_, list_.with_name(list_.name.replace("_train.", "_test."))
            train, test = (self._listed(root, path) for path in lists)
            for path, listing in zip(lists, (train, test), strict=True):
                if not listing:
                    raise broken(self.name, path, "it has no image of the ten classes")
        return self._files(train), self._files(test)

    def _files(self, listing: Listing) -> ImageFiles:
        paths, y = [path for path, _ in listing], [label for _, label in listing]
        return ImageFiles(self.name, tuple(paths), np.array(y, np.int64), SIDE, resize=True)

    def _list(self, root: Path, domain: str) -> Path | None:
        """FedBN's list of who trains, else DomainNet's own."""
        paths = [root / self.folder / f"{domain}_train.{suffix}" for suffix in ("pkl", "txt")]
        return next((path for path in paths if path.is_file()), None)

    def _listed(self, root: Path, path: Path) -> Listing:
        if path.suffix == ".pkl":
            return [
                (self._inside(root, path, file), self._class(path, label))
                for file, label in _pairs(self.name, path)
            ]
        listing = []
        for file in _lines(self.name, path):
            label = self._known(PurePosixPath(file).parent.name)
            if label is not None:  # the list has all 345 classes
                listing.append((self._inside(root / self.folder, path, file), label))
        return _shuffled(listing)

    def _inside(self, base: Path, list_: Path, file: str) -> Path:
        inner = PurePosixPath(file)
        if inner.is_absolute() or ".." in inner.parts or "\\" in file:
            raise broken(self.name, list_, f"it names a file outside the folder, {file}")
        return base / inner

    def _known(self, label: str) -> int | None:
        return next((i for i, names in enumerate(self.classes) if label in names), None)

    def _class(self, path: Path, label: str) -> int:
        if (known := self._known(label)) is None:
            raise broken(self.name, path, f"it has the class '{label}', which is none of the ten")
        return known

    def _own_split(self, base: Path, domain: str) -> tuple[Listing, Listing]:
        folder = _first_folder(self.name, base, self.domains[domain])
        train: Listing = []
        test: Listing = []
        for label, names in enumerate(self.classes):
            inner = _first_folder(self.name, folder, names)
            files = sorted(p for p in inner.iterdir() if p.suffix.lower() in SUFFIXES)
            if not files:
                raise missing(self.name, inner / "*.jpg")
            listing = _shuffled([(path, label) for path in files])
            held = round(len(listing) / 5)
            test += listing[:held]
            train += listing[held:]
        return _shuffled(train), test


def _first_folder(name: str, base: Path, names: tuple[str, ...]) -> Path:
    for folder in names:
        if (base / folder).is_dir():
            return base / folder
    raise missing(name, base / names[0])


def _shuffled(listing: Listing) -> Listing:
    """The same for all runs: it depends on how many there are, and nothing else."""
    return [listing[i] for i in np.random.default_rng(0).permutation(len(listing))]


def _pairs(name: str, path: Path) -> list[tuple[str, str]]:
    """FedBN's lists: paths and names of classes, one after the other."""
    held: Any = read_pickle(name, path)
    try:
        files, labels = ([_text(item) for item in row] for row in held)
        return list(zip(files, labels, strict=True))
    except (TypeError, ValueError) as error:
        raise broken(name, path, "it is not a list of paths and one of as many classes") from error


def _text(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode()
    if not isinstance(item, str):
        raise TypeError
    return str(item)


def _lines(name: str, path: Path) -> list[str]:
    """DomainNet's lists: lines such as 'clipart/bird/clipart_029_000001.jpg 28'."""
    lines = words_by_line(name, path)
    for number, line in enumerate(lines, 1):
        if len(line) != 2 or not line[1].isdigit():
            raise broken(name, path, f"line {number} is not a path and a number")
    return [file for file, _ in lines]


OFFICE_CALTECH = DomainFolders(
    "office-caltech",
    "office_caltech_10",
    {
        "amazon": ("amazon",),
        "caltech": ("caltech10", "caltech"),
        "dslr": ("dslr",),
        "webcam": ("webcam",),
    },
    (
        ("backpack", "back_pack"),
        ("bike",),
        ("calculator",),
        ("headphones",),
        ("keyboard",),
        ("laptop", "laptop_computer"),
        ("monitor",),
        ("mouse",),
        ("mug",),
        ("projector",),
    ),
)

DOMAINNET = DomainFolders(
    "domainnet",
    "DomainNet",
    {name: (name,) for name in ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")},
    tuple(
        (name,)
        for name in (
            "bird",
            "feather",
            "headphones",
            "ice_cream",
            "teapot",
            "tiger",
            "whale",
            "windmill",
            "wine_glass",
            "zebra",
        )
    ),
)
