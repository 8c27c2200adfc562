from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledData:
    """Inputs and labels 0 to classes-1; with `domains`, also where each sample comes from.

    `class_names`, where there are any, are one for each class, for reports.
    """

    name: str
    x: Tensor
    y: Tensor
    classes: int
    domains: tuple[str, ...] = ()
    domain: Tensor | None = None
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(f"{self.name}: {len(self.x)} inputs but {len(self.y)} labels")
        if len(self.y) == 0:
            raise DataError(f"{self.name}: there are no samples")
        if self.x.is_floating_point() and not bool(torch.isfinite(self.x).all()):
            bad = ~torch.isfinite(self.x.flatten(1)).all(dim=1)
            raise DataError(
                f"{self.name}: {int(bad.sum())} samples hold NaN or infinity, the first is sample "
                f"{int(bad.nonzero()[0])}; clean or drop them"
            )
        if self.y.dtype != torch.int64:
            raise DataError(f"{self.name}: labels must be int64 class numbers, not {self.y.dtype}")
        wrong = (self.y < 0) | (self.y >= self.classes)
        if bool(wrong.any()):
            first = int(wrong.nonzero()[0])
            raise DataError(
                f"{self.name}: label {int(self.y[first])} of sample {first} is out of range; with "
                f"{self.classes} classes labels go from 0 to {self.classes - 1}"
            )
        if self.domain is not None and len(self.domain) != len(self.y):
            raise DataError(f"{self.name}: {len(self.domain)} domains for {len(self.y)} labels")
        if self.class_names and len(self.class_names) != self.classes:
            given = f"{len(self.class_names)} class names for {self.classes} classes"
            raise DataError(f"{self.name}: {given}; give one for each, in order, or none")

    def __len__(self) -> int:
        return len(self.y)

    def rows_of_class(self) -> list[Rows]:
        """For each class, the rows that have it."""
        y = self.y.numpy()
        return [np.flatnonzero(y == c) for c in range(self.classes)]

    def all_rows(self) -> "Samples":
        return Samples(self, np.arange(len(self)))


@dataclass(frozen=True)
class DataSplit:
    """Training data for clients, test data for the evaluation."""

    train: LabelledData
    test: LabelledData
    notes: tuple[str, ...] = ()
    """What every table made from these data must say: a part that is missing or stands in."""

    def __post_init__(self) -> None:
        if self.train.x.shape[1:] != self.test.x.shape[1:]:
            raise DataError(
                f"{self.train.name} has samples of shape {tuple(self.train.x.shape[1:])} but "
                f"{self.test.name} of {tuple(self.test.x.shape[1:])}"
            )


@dataclass(frozen=True)
class Samples:
    """Some rows of a data set, such as a client's, without a copy of them."""

    data: LabelledData
    rows: Rows
    relabel: Tensor | None = None
    """The label that each class has now, under concept shift."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, positions: Rows | slice) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(self.rows[positions])
        y = self.data.y[rows]
        return self.data.x[rows], y if self.relabel is None else self.relabel[y]

    def all(self) -> tuple[Tensor, Tensor]:
        return self.batch(slice(None))

    def own_classes(self) -> Rows:
        """The class of each sample, whatever label the class has now."""
        own: Rows = self.data.y.cpu().numpy()[self.rows]
        return own
