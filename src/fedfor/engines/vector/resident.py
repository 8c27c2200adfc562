"""Data sets on the device, each brought there once."""

import weakref
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import LabelledData, Samples
from ...data.labelled import Rows


class Resident:
    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._held: dict[int, tuple[weakref.ref[LabelledData], Tensor, Tensor]] = {}

    def of(self, data: LabelledData) -> tuple[Tensor, Tensor]:
        """All inputs and labels of a data set."""
        held = self._held.get(id(data))
        if held is None or held[0]() is not data:
            self._held = {key: h for key, h in self._held.items() if h[0]() is not None}
            dtype = self.dtype if data.x.is_floating_point() else data.x.dtype
            held = weakref.ref(data), data.x.to(self.device, dtype), data.y.to(self.device)
            self._held[id(data)] = held
        return held[1], held[2]

    def rows(self, rows: NDArray[np.integer[Any]]) -> Tensor:
        found = torch.from_numpy(rows)
        if self.device.type == "cuda":
            found = found.pin_memory()
        return found.to(self.device, non_blocking=True)

    def batch(self, samples: Samples, rows: Rows) -> tuple[Tensor, Tensor]:
        """Some rows of the data set that the samples are of, with their present labels."""
        x, y = self.of(samples.data)
        at = self.rows(rows)
        labels = y[at] if samples.relabel is None else samples.relabel.to(self.device)[y[at]]
        return x[at], labels
