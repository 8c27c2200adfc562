"""Compiling what will run often enough to earn back the time that it takes."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ..stacking import Stacking

Flat = Callable[..., Any]
"""Takes tensors alone."""

COMPILE_FROM = 3e14
"""Multiplications of a whole run from which compiling, a minute or so, is earned back on a GPU."""


class Compiler:
    def __init__(self, device: torch.device, stacking: Stacking) -> None:
        self.device, self.stacking = device, stacking
        self.products = 0.0
        """Multiplications of a forward of one image; 0 while nobody knows."""
        self._compiled: dict[tuple[object, int], Flat] = {}

    def worth(self, images: float) -> bool:
        """Whether a program that trains so many images a round earns back the time it takes."""
        if self.device.type != "cuda" or self.stacking.compile == "never":
            return False
        work = images * self.stacking.rounds * self.products
        return self.stacking.compile == "always" or work >= COMPILE_FROM

    def best(
        self, kind: object, places: int, run: Flat, inputs: Sequence[Tensor], images: float
    ) -> Flat:
        """What does the same as `run` for so many places of a kind."""
        if not self.worth(images):
            return run
        if (kind, places) not in self._compiled:
            self._compiled[kind, places] = compiled(traced(run, inputs), inputs)
        return self._compiled[kind, places]

    def room(self, kind: object, wanted: int) -> int:
        """How many places to fill: as many as wanted, or somewhat more if that is compiled."""
        known = [n for k, n in self._compiled if k == kind and wanted <= n <= 4 * wanted // 3]
        return min(known, default=wanted)


def traced(run: Flat, inputs: Sequence[Tensor]) -> Flat:
    """What it does to tensors like these, without the Python that led to it."""
    found = make_fx(run)(*inputs)
    found.graph.eliminate_dead_code()
    found.recompile()
    return found


def compiled(run: Flat, inputs: Sequence[Tensor]) -> Flat:
    """Compiled for tensors like these, which it may change; as it is where that fails."""
    best = torch.compile(run, fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            best(*inputs)
    except Exception as error:  # whatever a compiler may meet; what was to be compiled is sound
        first = str(error).strip().splitlines()[0][:200]
        warnings.warn(f"torch.compile failed, going on without ({first})", stacklevel=2)
        return run
    return best
