"""Sums over the replies of many clients."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..tensors import Tensors, wide

AT_A_TIME = 64  # clients whose tensors are widened to float64 at once
FEW = 16  # the same, where little memory counts for more than few steps

BLOCK = 2**17
"""Columns that a CPU works on at once: of more it would leave its cache, and lose digits of their
squares in float32."""


def averaged(sums: Tensors, like: Tensors, divisor: float) -> Tensors:
    """Sums over a number, in the types of `like`; whole numbers are rounded."""
    result = {}
    for name, model_tensor in like.items():
        value = sums[name] / divisor
        if not model_tensor.is_floating_point():
            value = value.round()
        result[name] = value.to(model_tensor.device, model_tensor.dtype)
    return result


def sums(stacked: Tensors, weights: Sequence[float]) -> Tensors:
    """The weighted sum over the clients of each tensor, in float64."""
    return {name: _weighted_sum(t, weights) for name, t in stacked.items()}


def sums_and_distances(
    start: Tensors, ends: Tensors, weights: Sequence[float]
) -> tuple[Tensors, Tensor | None]:
    """The weighted sums of where clients ended; and how far each is from the start, where our
    kernel tells it by the way."""
    if not _in_one_pass(start, ends):
        return sums(ends, weights), None
    found, lengths = _kernels().sums_and_distances(start, ends, weights)
    return found | sums({n: t for n, t in ends.items() if n not in start}, weights), lengths


def _blocks(stacked: Tensor) -> Sequence[Tensor]:
    """A row for each client, in parts for a CPU; anything else as it is."""
    if stacked.device.type != "cpu" or stacked.ndim != 2 or stacked.shape[1] <= BLOCK:
        return (stacked,)
    blocks: Sequence[Tensor] = stacked.split(BLOCK, dim=1)  # type: ignore[no-untyped-call]
    return blocks


def _weighted_sum(stacked: Tensor, weights: Sequence[float]) -> Tensor:
    blocks = _blocks(stacked)
    if len(blocks) > 1:
        return torch.cat([_weighted_sum(block, weights) for block in blocks])
    dtype = wide(stacked)
    if all(weight == 1 for weight in weights):
        return _sum(stacked, dtype)
    total = torch.zeros(stacked.shape[1:], dtype=dtype, device=stacked.device)
    scale = torch.tensor(weights, dtype=dtype, device=stacked.device)
    for first in range(0, len(stacked), AT_A_TIME):
        some, of_them = (t[first : first + AT_A_TIME] for t in (stacked, scale))
        total += (some.to(dtype) * of_them.view(-1, *(1,) * total.ndim)).sum(dim=0)
    return total


def _sum(stacked: Tensor, dtype: torch.dtype) -> Tensor:
    if stacked.device.type != "cpu":
        return stacked.sum(dim=0, dtype=dtype)
    if len(stacked) == 1:
        return stacked[0].to(dtype, copy=True, memory_format=torch.contiguous_format)
    # A CPU makes a wide copy first, and new memory costs it more than the sum: so, a few at once.
    total = stacked[:FEW].sum(dim=0, dtype=dtype)
    for first in range(FEW, len(stacked), FEW):
        total += stacked[first : first + FEW].sum(dim=0, dtype=dtype)
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
