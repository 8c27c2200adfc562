"""All trained weights of a client in one row, so that a cohort is one matrix."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor, nn

from ...algorithms.sharing import Sharing, stays_local, trainable
from ...tensors import Tensors

LARGE = 2**18

ALIGNED = 16
"""Matrix products are faster where every client's weights begin at a multiple of so many."""


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
        for name in sorted(params, key=lambda n: (n in own, params[n].numel() % ALIGNED > 0)):
            shape = tuple(params[name].shape)
            self.slots[name] = Slot(start, start + prod(shape), shape)
            start += prod(shape)
        self.used = start
        self.width = start + -start % ALIGNED
        self._without_batch_norm = sum(
            slot.stop - slot.start for name, slot in self.slots.items() if name not in own
        )

    @cached_property
    def segments(self) -> list[tuple[int, int, list[str]]]:
        """Columns that are updated together: large parameters each alone, small ones side by side.

        Gathering the gradients of small ones into one matrix saves many small steps; copying those
        of large ones there would cost more than it saves.
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
        return self.width if sharing == "everything" else self._without_batch_norm

    def row(self, tensors: Tensors, like: Tensor, stop: int | None = None) -> Tensor:
        """The tensors of one client as a row of the first `stop` columns, or of all.

        What is missing is zero: an extra that was not sent or not kept.
        """
        parts = [
            tensors[name].to(like).reshape(-1)
            if name in tensors
            else like.new_zeros(slot.stop - slot.start)
            for name, slot in self.slots.items()
            if stop is None or slot.stop <= stop
        ]
        if stop is None or stop == self.width:
            parts.append(like.new_zeros(self.width - self.used))
        return torch.cat(parts) if parts else like.new_zeros(0)

    def split(self, rows: Tensor) -> Tensors:
        """The parameters in a matrix of rows, or of their first columns, as views."""
        return {
            name: rows[:, slot.start : slot.stop].view(len(rows), *slot.shape)
            for name, slot in self.slots.items()
            if slot.stop <= rows.shape[1]
        }
