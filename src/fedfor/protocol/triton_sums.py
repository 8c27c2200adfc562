"""Sums over clients, and how far each has moved, in one pass over their weights."""

# Kernels are written in Triton's language, which has no types for its tensors.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..tensors import Tensors

BLOCK, CLIENTS = 256, 8  # a warp has all of it, so that sums over clients need no exchange


@triton.jit(do_not_specialize=["clients"])
def _kernel(
    ends, row, start, weights, total, squares, clients, width,
    BLOCK: tl.constexpr, CLIENTS: tl.constexpr,
):  # fmt: skip
    """total[i] = sum over k of weights[k] ends[k, i]; squares[block, k] = |ends[k] - start|^2."""
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    inside = i < width
    origin = tl.load(start + i, mask=inside, other=0.0)
    summed = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, clients, CLIENTS):
        k = first + tl.arange(0, CLIENTS)
        used = (k < clients)[:, None] & inside[None, :]
        place = k.to(tl.int64)[:, None] * row + i[None, :]
        end = tl.load(ends + place, mask=used, other=0.0)
        weight = tl.load(weights + k, mask=k < clients, other=0.0)
        summed += tl.sum(end.to(tl.float64) * weight[:, None], axis=0)
        move = tl.where(used, end - origin[None, :], 0.0)
        tl.store(squares + block * clients + k, tl.sum(move * move, axis=1), mask=k < clients)
    tl.store(total + i, summed, mask=inside)


def sums_and_distances(
    start: Tensors, ends: Tensors, weights: Sequence[float]
) -> tuple[Tensors, Tensor]:
    """For the tensors of `start`: float32, each client's contiguous."""
    device, clients = next(iter(ends.values())).device, len(weights)
    blocks = {name: triton.cdiv(w.numel(), BLOCK) for name, w in start.items()}
    squares = torch.empty(sum(blocks.values()), clients, device=device)
    scale = torch.tensor(weights, dtype=torch.float64).to(device, non_blocking=True)
    found: Tensors = {}
    first = 0
    for name, w in start.items():
        found[name] = torch.empty(w.shape, dtype=torch.float64, device=device)
        part = squares[first : first + blocks[name]]
        _kernel[(blocks[name],)](
            ends[name], ends[name].stride(0), w.contiguous(), scale, found[name], part,
            clients, w.numel(), BLOCK, CLIENTS, num_warps=1,
        )  # fmt: skip
        first += blocks[name]
    lengths: Tensor = squares.sum(0, dtype=torch.float64).sqrt()
    return found, lengths
