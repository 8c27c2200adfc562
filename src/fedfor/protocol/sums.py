"""What a round needs of the replies of many clients: their sum, and how far each has moved."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..tensors import Extras, Tensors, wide

AT_A_TIME = 64  # clients whose tensors are widened to float64 at once

BLOCK = 2**17
"""Columns that a CPU works on at once: of more it would leave its cache, and lose digits of their
squares in float32."""


class Sums:
    """Running sums in float64, so that the order of clients hardly matters."""

    def __init__(self) -> None:
        self._sums: Extras = {}

    def add(self, key: str, tensors: Tensors) -> None:
        into = self._sums.setdefault(key, {})
        for name, total in tensors.items():
            into[name] = into[name].add_(total) if name in into else total

    def over(self, key: str, like: Tensors, divisor: float) -> Tensors:
        """The sums over a number, in the types of `like`; whole numbers are rounded."""
        result = {}
        for name, model_tensor in like.items():
            value = self._sums[key][name] / divisor
            if not model_tensor.is_floating_point():
                value = value.round()
            result[name] = value.to(model_tensor.device, model_tensor.dtype)
        return result


def sums(stacked: Tensors, weights: Sequence[float]) -> Tensors:
    """The weighted sum over the clients of each tensor, in float64."""
    return {name: _weighted_sum(t, weights) for name, t in stacked.items()}


def sums_and_distances(
    start: Tensors, ends: Tensors, weights: Sequence[float]
) -> tuple[Tensors, Tensor]:
    """The weighted sums of where clients ended, and how far each is from the start."""
    if _in_one_pass(start, ends):
        found, lengths = _kernels().sums_and_distances(start, ends, weights)
        return found | sums({n: t for n, t in ends.items() if n not in start}, weights), lengths
    return sums(ends, weights), distances(start, ends)


def distances(start: Tensors, ends: Tensors) -> Tensor:
    """How far each client of a stack has moved."""
    moves = [
        torch.linalg.vector_norm((end - begin).flatten(1), dim=1)
        if begin.ndim
        else (end - begin).abs()
        for name, w in start.items()
        for begin, end in zip(_blocks(w), _blocks(ends[name], leading=1), strict=True)
    ]
    lengths: Tensor = torch.linalg.vector_norm(torch.stack(moves).to(wide(moves[0])), dim=0)
    return lengths


def _blocks(tensor: Tensor, leading: int = 0) -> Sequence[Tensor]:
    """A row, or one for each client, in parts for a CPU; anything else as it is."""
    is_row = tensor.ndim == leading + 1
    if tensor.device.type != "cpu" or not is_row or tensor.shape[-1] <= BLOCK:
        return (tensor,)
    blocks: Sequence[Tensor] = tensor.split(BLOCK, dim=-1)  # type: ignore[no-untyped-call]
    return blocks


def _weighted_sum(stacked: Tensor, weights: Sequence[float]) -> Tensor:
    blocks = _blocks(stacked, leading=1)
    if len(blocks) > 1:
        return torch.cat([_weighted_sum(block, weights) for block in blocks])
    dtype = wide(stacked)
    if all(weight == 1 for weight in weights):
        return stacked.sum(dim=0, dtype=dtype)
    total = torch.zeros(stacked.shape[1:], dtype=dtype, device=stacked.device)
    scale = torch.tensor(weights, dtype=dtype, device=stacked.device)
    for first in range(0, len(stacked), AT_A_TIME):
        some, of_them = (t[first : first + AT_A_TIME] for t in (stacked, scale))
        total += (some.to(dtype) * of_them.view(-1, *(1,) * total.ndim)).sum(dim=0)
    return total


def _in_one_pass(start: Tensors, ends: Tensors) -> bool:
    """Whether our kernel can read each weight once, where torch would write copies of them all."""
    return all(
        w.is_cuda
        and w.dtype == ends[n].dtype == torch.float32
        and w.device == ends[n].device
        and ends[n][0].is_contiguous()
        for n, w in start.items()
    ) and (_kernels() is not None)


@functools.cache
def _kernels() -> Any:
    try:
        from . import triton_sums
    except ImportError:
        return None
    return triton_sums
