from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..labelled import Rows


class Source(Protocol):
    """The training or the test images of a data set: counted at once, read when they are taken."""

    def __len__(self) -> int: ...

    def take(self, rows: Rows | None = None) -> "Part":
        """These images in this order; without rows, all."""


@dataclass(frozen=True)
class Part:
    """Images as their files have them.

    x is [N, C, H, W], of type uint8 from 0 to 255, or float32 from -1 to 1; labels start at 0.
    """

    x: NDArray[Any]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Rows | None = None) -> "Part":
        return self if rows is None else Part(self.x[rows], self.y[rows])
