"""2-d convolutions of many independent models ("lanes") at once, as Triton kernels.

Every tensor has the lane axis first and the channels last: x [G, B, H, W, C], weights
[G, KH, KW, C, O], y [G, B, OH, OW, O]. A lane has its own weights and its own batch; the stride
between lanes is free (0 for weights that all lanes share), all axes after it are contiguous.
Zero padding, dilation 1, groups 1, no bias; sums are in float32.

All three are matrix products between a patch of pixels and a tile of pixels, k = (row, column,
channel) of the patch and n = (row, column, channel) of the tile: the patch that the tile depends
on is gathered once for all of its pixels. With a single pixel as tile and a kernel of 3 x 3, every
value would pass 9 times through caches and shared memory, and that, not memory, would bound narrow
layers; with a tile of 2 x 2 it is 4 times. The price is products with zeros, where a pixel of the
patch and one of the tile are not a tap apart, which the tensor cores have to spare. Kernels for 3
rows of taps and stride 1 also walk down the rows of an image and meet three rows of the other one
with each that they read: with a tile of 1 x 2, every value passes 2 times.

Nothing is atomic and no block size is chosen by timing: results are repeatable.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from .triton_blocks import Blocks, choose_blocks, patch_size
from .triton_rows import correlate_rows_kernel, weight_gradient_rows_kernel
from .triton_tiles import add_parts_kernel, correlate_kernel, weight_gradient_kernel

# Programs of the weights' gradient: 6 for each multiprocessor of an H200. A constant, so that sums
# are in the same order on every device.
_PROGRAMS = 792


def _check(*tensors: Tensor) -> None:
    for tensor in tensors:
        if not tensor[0].is_contiguous():
            raise ValueError("the axes after the lanes must be contiguous")
        if tensor[0].numel() >= 2**31:
            raise ValueError("a lane must have less than 2**31 values")


def _cut(
    kind: str,
    patch: Sequence[int],
    tile: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dtype: torch.dtype,
    allow_tf32: bool,
) -> tuple[Blocks, dict[str, Any]]:
    """The blocks and a kernel's constants; `patch` and `tile` are [H, W, C] of their images."""
    fast = allow_tf32 or dtype != torch.float32
    pairs = (kernel[0], kernel[1]), (stride[0], stride[1])
    blocks = choose_blocks(kind, *pairs, patch[2], tile[2], fast, dtype.itemsize)
    names = ("H", "W", "C", "OH", "OW", "O", "KH", "KW", "SH", "SW", "PH", "PW")
    sizes = (*patch, *tile, *kernel, *stride, *padding)
    return blocks, dict(zip(names, sizes, strict=True)) | {
        "TILE_H": blocks.tile[0],
        "TILE_W": blocks.tile[1],
        "PRECISION": "tf32" if fast else "ieee",
        "BLOCK_M": blocks.m,
        "BLOCK_N": blocks.n,
        "BLOCK_K": blocks.k,
        "STEP": blocks.step,
        "num_warps": blocks.warps,
        "num_stages": blocks.stages,
    }


def _tiles(hw: Sequence[int], tile: Sequence[int]) -> int:
    return int(triton.cdiv(hw[0], tile[0]) * triton.cdiv(hw[1], tile[1]))


def _correlate(
    kind: str,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    stride: list[int],
    padding: list[int],
    allow_tf32: bool,
) -> Tensor:
    _check(x, w, y)
    kernel = w.shape[1:3]
    blocks, constants = _cut(
        kind, x.shape[2:], y.shape[2:], kernel, stride, padding, x.dtype, allow_tf32
    )
    lanes, batch, *hw, channels = y.shape
    cuts = triton.cdiv(blocks.tile[0] * blocks.tile[1] * channels, blocks.n)
    constants["BACKWARD"] = kind == "input_gradient"
    strides = x.stride(0), w.stride(0), y.stride(0)
    with torch.cuda.device_of(x):
        if blocks.rows:
            programs = triton.cdiv(batch * triton.cdiv(hw[1], blocks.tile[1]), blocks.m)
            # All rows at once, or as many parts of them as fill the device, 8 rows at least.
            parts = min(triton.cdiv(_PROGRAMS, programs * cuts * lanes), triton.cdiv(hw[0], 8))
            rows = triton.cdiv(hw[0], parts)
            grid = (programs, cuts * triton.cdiv(hw[0], rows), lanes)
            correlate_rows_kernel[grid](x, w, y, *strides, batch, rows, **constants)
        else:
            grid = (triton.cdiv(batch * _tiles(hw, blocks.tile), blocks.m), cuts, lanes)
            correlate_kernel[grid](x, w, y, *strides, batch, **constants)
    return y


@torch.library.custom_op("fedfor::conv_forward", mutates_args=())
def conv_forward(
    x: Tensor, w: Tensor, stride: list[int], padding: list[int], allow_tf32: bool
) -> Tensor:
    """y [G, B, OH, OW, O] of x [G, B, H, W, C] and w [G, KH, KW, C, O]."""
    y = _empty_forward(x, w, stride, padding, allow_tf32)
    return _correlate("forward", x, w, y, stride, padding, allow_tf32)


@conv_forward.register_fake
def _empty_forward(
    x: Tensor, w: Tensor, stride: list[int], padding: list[int], allow_tf32: bool
) -> Tensor:
    height, width = (
        (size + 2 * p - k) // s + 1
        for size, k, s, p in zip(x.shape[2:4], w.shape[1:3], stride, padding, strict=True)
    )
    return x.new_empty(*x.shape[:2], height, width, w.shape[-1])


@torch.library.custom_op("fedfor::conv_input_gradient", mutates_args=())
def conv_input_gradient(
    gy: Tensor,
    w: Tensor,
    input_hw: list[int],
    stride: list[int],
    padding: list[int],
    allow_tf32: bool,
) -> Tensor:
    """The gradient [G, B, H, W, C] of x, given that of y."""
    gx = _empty_input_gradient(gy, w, input_hw, stride, padding, allow_tf32)
    return _correlate("input_gradient", gy, w, gx, stride, padding, allow_tf32)


@conv_input_gradient.register_fake
def _empty_input_gradient(
    gy: Tensor,
    w: Tensor,
    input_hw: list[int],
    stride: list[int],
    padding: list[int],
    allow_tf32: bool,
) -> Tensor:
    return gy.new_empty(*gy.shape[:2], *input_hw, w.shape[3])


@torch.library.custom_op("fedfor::conv_weight_gradient", mutates_args=())
def conv_weight_gradient(
    gy: Tensor,
    x: Tensor,
    kernel_hw: list[int],
    stride: list[int],
    padding: list[int],
    allow_tf32: bool,
) -> Tensor:
    """The gradient [G, KH, KW, C, O] of w in float32, given that of y."""
    _check(gy, x)
    gw: Tensor = _empty_weight_gradient(gy, x, kernel_hw, stride, padding, allow_tf32)
    blocks, constants = _cut(
        "weight_gradient", x.shape[2:], gy.shape[2:], kernel_hw, stride, padding, x.dtype,
        allow_tf32,
    )  # fmt: skip
    lanes, batch, *hw, channels = gy.shape
    rows, row = patch_size("weight_gradient", blocks.tile, kernel_hw, stride, x.shape[-1])
    n = blocks.tile[0] * blocks.tile[1] * channels
    cuts = triton.cdiv(row if blocks.rows else rows * row, blocks.step) * triton.cdiv(n, blocks.n)
    # As many splits of a lane's tiles as fill the device, but 8 turns of the loop for each.
    tiles = batch * _tiles((1, hw[1]) if blocks.rows else hw, blocks.tile)
    turns = 1 if blocks.rows else 8
    splits = min(triton.cdiv(_PROGRAMS, lanes * cuts), triton.cdiv(tiles, turns * blocks.m))
    share = triton.cdiv(triton.cdiv(tiles, splits), blocks.m) * blocks.m
    splits = triton.cdiv(tiles, share)
    parts = gw.new_empty(splits, lanes, rows * row, n)
    names = ("C", "O", "KH", "KW", "SH", "SW", "TILE_H", "TILE_W")
    with torch.cuda.device_of(x):
        kernel = weight_gradient_rows_kernel if blocks.rows else weight_gradient_kernel
        kernel[cuts, splits, lanes](
            gy, x, parts, gy.stride(0), x.stride(0), batch, share, **constants
        )
        add_parts_kernel[triton.cdiv(gw[0].numel(), 512), lanes](
            parts, gw, splits, BLOCK=512, **{name: constants[name] for name in names}
        )
    return gw


@conv_weight_gradient.register_fake
def _empty_weight_gradient(
    gy: Tensor,
    x: Tensor,
    kernel_hw: list[int],
    stride: list[int],
    padding: list[int],
    allow_tf32: bool,
) -> Tensor:
    shape = (x.shape[0], *kernel_hw, x.shape[-1], gy.shape[-1])
    return x.new_empty(shape, dtype=torch.float32)
