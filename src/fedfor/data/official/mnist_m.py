from pathlib import Path

import numpy as np

from .images import ImageFiles
from .lists import words_by_line
from .problems import broken

NAME = "mnist-m"
DIGITS = tuple("0123456789")


def read_mnist_m(root: Path) -> tuple[ImageFiles, ImageFiles]:
    """Train and test: a folder of png files, and a file of lines such as '00000000.png 5'."""
    train, test = (_part(root / "mnist_m", f"mnist_m_{part}") for part in ("train", "test"))
    return train, test


def _part(folder: Path, stem: str) -> ImageFiles:
    path = folder / f"{stem}_labels.txt"
    lines = words_by_line(NAME, path)
    if not lines:
        raise broken(NAME, path, "it has no lines")
    for number, line in enumerate(lines, 1):
        if len(line) != 2 or line[1] not in DIGITS or not _is_png(line[0]):
            raise broken(NAME, path, f"line {number} is not the name of a png file and a digit")
    y = np.array([int(digit) for _, digit in lines], np.int64)
    return ImageFiles(NAME, tuple(folder / stem / file for file, _ in lines), y, 32, resize=False)


def _is_png(file: str) -> bool:
    return Path(file).name == file and Path(file).suffix == ".png"
