"""MATLAB files of digits: X of 32 x 32 x 3 x N bytes, y of N labels."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import in_short
from ..labelled import Rows
from .problems import broken, unread
from .sources import Part

SHAPE = (32, 32, 3)
OTHER_SHAPE = "X is not of 32 x 32 x 3 bytes for each image"


def read_svhn(root: Path) -> tuple["MatFile", "MatFile"]:
    folder = root / "svhn"
    return (
        MatFile("svhn", folder / "train_32x32.mat"),
        MatFile("svhn", folder / "test_32x32.mat"),
    )


def read_synth_digits(root: Path) -> tuple["MatFile", "MatFile"]:
    folder = root / "synth_digits"
    return (
        MatFile("synth-digits", folder / "synth_train_32x32.mat"),
        MatFile("synth-digits", folder / "synth_test_32x32.mat"),
    )


@dataclass(frozen=True)
class MatFile:
    name: str
    path: Path

    def __len__(self) -> int:
        """From the head of the file."""
        shapes = {name: shape for name, shape, _ in self._ask("whosmat")}
        if len(shapes.get("X", ())) != 4 or "y" not in shapes:
            raise broken(self.name, self.path, "it has not the arrays X and y")
        if shapes["X"][:3] != SHAPE or shapes["X"][3] == 0:
            raise broken(self.name, self.path, OTHER_SHAPE)
        return int(shapes["X"][3])

    def take(self, rows: Rows | None = None) -> Part:
        arrays = self._ask("loadmat", variable_names=("X", "y"))
        x, y = (np.asarray(arrays.get(key, ())) for key in ("X", "y"))
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != SHAPE or x.shape[3] == 0:
            raise broken(self.name, self.path, OTHER_SHAPE)
        if y.size != x.shape[3]:
            raise broken(self.name, self.path, f"{y.size:,} labels for {x.shape[3]:,} images")
        if y.dtype.kind not in "uif" or not np.isin(y, np.arange(11)).all():
            raise broken(self.name, self.path, "it has a label that is no digit")
        if np.isin((0, 10), y).all():
            why = "it has the labels 0 and 10, and either may stand for the digit 0, not both"
            raise broken(self.name, self.path, why)
        chosen = slice(None) if rows is None else rows
        images = np.ascontiguousarray(x.transpose(3, 2, 0, 1)[chosen])
        return Part(images, y.ravel()[chosen].astype(np.int64) % 10)  # SVHN writes 0 as 10

    def _ask(self, function: str, **options: Any) -> Any:
        import scipy.io

        try:
            with self.path.open("rb") as file:
                return getattr(scipy.io, function)(file, **options)
        except OSError as error:
            raise unread(self.name, self.path, error) from error
        except Exception as error:  # a broken file can raise anything
            raise broken(self.name, self.path, in_short(error)) from error
