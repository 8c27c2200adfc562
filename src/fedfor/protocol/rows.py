"""Tensors end to end in one row of numbers, so that what is elementwise is done once for all."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import torch
from torch import Tensor, nn

from ..algorithms.sharing import stays_local, trainable
from ..tensors import Tensors

ALIGNED = 16
"""Matrix products are faster where every client's weights begin at a multiple of so many."""


def row_order(model: nn.Module) -> list[str]:
    """The trained parameters as they lie in a row, with servers and engines alike.

    Batch norm's come last, so that what FedBN shares is the front part of the row.
    """
    own, params = stays_local(model, "all-but-batch-norm"), trainable(model)
    return sorted(params, key=lambda n: (n in own, params[n].numel() % ALIGNED > 0))


class Row:
    """Tensors of these shapes, one after another."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.sizes = [prod(shape) for shape in self.shapes]
        self.width = sum(self.sizes)
        self._starts = list(accumulate(self.sizes, initial=0))[:-1]
        self._strides = [_strides(shape) for shape in self.shapes]
        self._only_numbers = not any(self.shapes)

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """A vector; of stacks of clients, a matrix. Where they lie in memory just so, it is that
        memory, else a copy."""
        first = tensors[0]
        axes = first.ndim - len(self.shapes[0])
        if self._lie_so(tensors, axes):
            size, stride = first.shape[:axes], first.stride()[:axes]
            return first.as_strided((*size, self.width), (*stride, 1))
        if self._only_numbers:
            return torch.stack(list(tensors), dim=-1)
        flat = [t if t.ndim == axes + 1 else t.reshape((*t.shape[:axes], -1)) for t in tensors]
        return torch.cat(flat, dim=-1)

    def split(self, row: Tensor) -> list[Tensor]:
        """The tensors again, as views. Columns that a matrix has besides are left out."""
        if self._only_numbers and row.shape[-1] == self.width:
            return list(row.unbind(-1))
        sizes = [*self.sizes, row.shape[-1] - self.width]
        parts = zip(self.shapes, row.split_with_sizes(sizes, dim=-1), strict=False)
        front = row.shape[:-1]
        return [part if len(shape) == 1 else part.view((*front, *shape)) for shape, part in parts]

    def _lie_so(self, tensors: Sequence[Tensor], axes: int) -> bool:
        first = tensors[0]
        size, stride, dtype = tuple(first.shape[:axes]), first.stride()[:axes], first.dtype
        began, bytes_each = first.data_ptr(), first.element_size()
        storage = first.untyped_storage()
        if began + self.width * bytes_each > storage.data_ptr() + storage.nbytes():
            return False
        places = zip(tensors, self._starts, self.shapes, self._strides, strict=True)
        return all(
            tensor.data_ptr() == began + start * bytes_each
            and tensor.stride() == stride + strides
            and tensor.shape == size + shape
            and tensor.dtype == dtype
            for tensor, start, shape, strides in places
        )


class Rows:
    """Named tensors as rows: those of one type in one, which goes by the name of its first.

    Not `joined`, each tensor is left by itself, in its own shape.
    """

    def __init__(self, like: Tensors, joined: bool) -> None:
        groups: dict[object, list[str]] = {}
        for name, tensor in like.items():
            groups.setdefault((tensor.dtype, tensor.device) if joined else name, []).append(name)
        self._names = {names[0]: names for names in groups.values()}
        self._rows = {
            first: Row([like[name].shape for name in names])
            for first, names in self._names.items()
            if len(names) > 1
        }

    def join(self, tensors: Tensors) -> Tensors:
        """The rows. Not to be changed: they may be the tensors' own memory."""
        return {
            first: self._rows[first].join([tensors[name] for name in names])
            if first in self._rows
            else tensors[first]
            for first, names in self._names.items()
        }

    def split(self, rows: Tensors) -> Tensors:
        """The tensors by their names, as views."""
        found: Tensors = {}
        for first, names in self._names.items():
            row = rows[first]
            parts = self._rows[first].split(row) if first in self._rows else [row]
            found |= zip(names, parts, strict=True)
        return found


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor of this shape that lies in one piece."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
