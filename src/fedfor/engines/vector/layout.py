"""All trained weights of a client in one row, so that a cohort is one matrix."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor, nn

from ...algorithms.sharing import Sharing, stays_local, trainable
from ...protocol.rows import ALIGNED, Row, row_order
from ...tensors import Tensors

LARGE = 2**18


@dataclass(frozen=True)
class Slot:
    start: int
    stop: int
    shape: tuple[int, ...]


class Layout:
    """Where each trained parameter lies in a row.

    Batch-norm parameters come last, so that what FedBN shares is the front part of the row, and
    runs with and without FedBN fit into one matrix. A row is filled up with columns that are
    always zero.
    """

    def __init__(self, model: nn.Module) -> None:
        own = stays_local(model, "all-but-batch-norm")
        params = trainable(model)
        self.slots: dict[str, Slot] = {}
        start = 0
        for name in row_order(model):
            shape = tuple(params[name].shape)
            self.slots[name] = Slot(start, start + prod(shape), shape)
            start += prod(shape)
        self.used = start
        self.width = start + -start % ALIGNED
        self._whole = self._block(list(self.slots))
        self._front = self._block([name for name in self.slots if name not in own])
        self._back = self._block([name for name in self.slots if name in own])

    def _block(self, names: list[str]) -> tuple[list[str], Row]:
        return names, Row([self.slots[name].shape for name in names])

    @cached_property
    def segments(self) -> list[tuple[int, int, list[str]]]:
        """Columns that are updated together: large parameters each alone, small ones side by side.

        Gathering the gradients of small ones into one matrix saves many small steps; copying those
        of large ones there would cost more than it saves, unless a compiler does it.
        """
        found: list[tuple[int, int, list[str]]] = []
        for name, slot in self.slots.items():
            large = slot.stop - slot.start >= LARGE
            if found and not large and found[-1][1] - found[-1][0] < LARGE:
                start, _, names = found.pop()
                found.append((start, slot.stop, [*names, name]))
            else:
                found.append((slot.start, slot.stop, [name]))
        return found

    def shared_width(self, sharing: Sharing) -> int:
        return self.width if sharing == "everything" else self._front[1].width

    def row(self, tensors: Tensors, like: Tensor, stop: int | None = None) -> Tensor:
        """The tensors of one client as a row of the first `stop` columns, or of all.

        What is missing is zero: an extra that was not sent or not kept. Always a copy.
        """
        whole = stop is None or stop >= self.used
        parts = []
        for names, row in (self._front, self._back) if whole else (self._front,):
            if tensors.keys().isdisjoint(names):
                parts.append(like.new_zeros(row.width))
            else:
                parts.append(row.join([self._given(tensors, name, like) for name in names]))
        filling = (self.width if stop is None else stop) - sum(len(part) for part in parts)
        return torch.cat([*parts, like.new_zeros(filling)])

    def _given(self, tensors: Tensors, name: str, like: Tensor) -> Tensor:
        return tensors[name].to(like) if name in tensors else like.new_zeros(self.slots[name].shape)

    def split(self, rows: Tensor) -> Tensors:
        """The parameters in a row or in a matrix of rows, or in their first columns, as views."""
        names, row = self._whole if rows.shape[-1] >= self.used else self._front
        return dict(zip(names, row.split(rows), strict=True))

    def split_own(self, rows: Tensor) -> Tensors:
        """Batch norm's parameters alone, given the columns behind what FedBN shares."""
        names, row = self._back
        return dict(zip(names, row.split(rows), strict=True))
