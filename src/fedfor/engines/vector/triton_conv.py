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

# Kernels are written in Triton's language, which has no types for its tensors.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-redef"

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Blocks(NamedTuple):
    """How the work is cut: `m` tiles by `n` and `k` values; a program uses `step` of the `k`.

    With `rows`, a program walks down the rows of the images and reads each of them once; only for
    kernels of 3 rows, stride 1 and a tile of one row, and `k` counts within a row of the patch.
    """

    tile: tuple[int, int]
    m: int
    n: int
    k: int
    step: int
    warps: int
    stages: int = 1
    rows: bool = False


# What was fastest on an H200, for kernels of 3 x 3: by direction, bytes of a value, stride and the
# channels of a pixel of the patch and of the tile.
_MEASURED = {
    ("forward", 2, 1, 3, 16): Blocks((2, 2), 128, 64, 64, 48, 4, 1),
    ("forward", 2, 1, 3, 32): Blocks((1, 1), 128, 32, 32, 27, 4, 1),
    ("forward", 2, 1, 16, 16): Blocks((1, 2), 64, 32, 64, 64, 4, 4, True),
    ("forward", 2, 2, 16, 32): Blocks((1, 2), 128, 64, 64, 64, 8, 3),
    ("forward", 2, 2, 32, 64): Blocks((1, 1), 128, 64, 64, 64, 8, 3),
    ("forward", 2, 1, 32, 64): Blocks((1, 2), 128, 128, 64, 64, 8, 3),
    ("forward", 2, 1, 64, 64): Blocks((1, 1), 128, 64, 64, 64, 4, 3),
    ("input_gradient", 2, 1, 16, 16): Blocks((1, 2), 64, 32, 64, 64, 4, 4, True),
    ("input_gradient", 2, 2, 32, 16): Blocks((2, 2), 128, 64, 64, 64, 4, 3),
    ("input_gradient", 2, 2, 64, 32): Blocks((2, 2), 128, 128, 64, 64, 4, 3),
    ("input_gradient", 2, 1, 64, 32): Blocks((1, 2), 128, 64, 64, 64, 8, 3),
    ("input_gradient", 2, 1, 64, 64): Blocks((1, 1), 128, 64, 64, 64, 4, 3),
    ("weight_gradient", 2, 1, 3, 16): Blocks((2, 2), 128, 64, 64, 48, 4, 1),
    ("weight_gradient", 2, 1, 3, 32): Blocks((1, 2), 128, 64, 64, 36, 4, 1),
    ("weight_gradient", 2, 1, 16, 16): Blocks((1, 2), 64, 32, 64, 64, 4, 4, True),
    ("weight_gradient", 2, 1, 32, 32): Blocks((1, 2), 128, 64, 128, 128, 8, 3, True),
    ("weight_gradient", 2, 2, 16, 32): Blocks((2, 1), 32, 64, 256, 240, 8, 4),
    ("weight_gradient", 2, 2, 32, 64): Blocks((1, 1), 64, 64, 128, 96, 8, 3),
    ("weight_gradient", 2, 1, 32, 64): Blocks((1, 1), 64, 64, 128, 96, 8, 3, True),
    ("weight_gradient", 2, 1, 64, 64): Blocks((1, 1), 32, 64, 64, 64, 4, 4, True),
    ("forward", 4, 1, 3, 32): Blocks((1, 1), 128, 32, 32, 27, 4, 3),
    ("forward", 4, 1, 32, 64): Blocks((1, 1), 32, 64, 32, 32, 4, 3, True),
    ("input_gradient", 4, 1, 64, 32): Blocks((1, 2), 128, 64, 64, 64, 8, 2),
    ("weight_gradient", 4, 1, 3, 32): Blocks((1, 1), 64, 32, 32, 27, 2, 1),
    ("weight_gradient", 4, 1, 32, 64): Blocks((1, 1), 16, 64, 32, 32, 4, 3, True),
}


def choose_blocks(
    kind: str,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: int,
    outer: int,
    fast: bool,
    width: int = 2,
) -> Blocks:
    """The blocks of "forward", "input_gradient" or "weight_gradient".

    `inner` counts the channels of a pixel of the patch, `outer` those of a pixel of the tile;
    `fast` is false where products are in full float32, without tensor cores; `width` is the bytes
    of a value. A benchmark replaces this function to try others.
    """
    sizes = (kernel, stride, inner, outer)
    tile = stride if kind == "input_gradient" else (1, 1)
    if not fast:
        m = 32 if kind == "weight_gradient" else 64
        return make_blocks(kind, tile, *sizes, m, 64, 64, stages=1)
    if kernel == (3, 3) and stride[0] == stride[1]:
        if (kind, width, stride[0], inner, outer) in _MEASURED:
            return _MEASURED[kind, width, stride[0], inner, outer]
        if width == 2 and stride == (1, 1) and inner <= 32 and outer <= 32:
            return make_blocks(kind, (1, 2), *sizes, 64, rows=True)
    if kind == "weight_gradient":
        # Products of tf32 need both transposed, and asynchronous copies would be of 4 bytes.
        return make_blocks(kind, tile, *sizes, 64, stages=3 if width == 2 else 1)
    return make_blocks(kind, tile, *sizes, 128, 64)


def make_blocks(
    kind: str,
    tile: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: int,
    outer: int,
    m: int,
    most_k: int = 128,
    most_n: int = 128,
    warps: int = 0,
    stages: int = 3,
    rows: bool = False,
) -> Blocks:
    """Blocks of at most those sizes: the whole patch, or a row of it, or as much as may be.

    Loads of more than one stage are in flight during products, but pass by the L1 cache.
    """
    height, row = _patch(kind, tile, kernel, stride, inner)
    whole = row if rows else height * row
    step = whole if whole <= most_k else min(row, most_k)
    if rows and step < whole and whole & -whole >= 16:
        step = min(whole & -whole, most_k)  # 192 values are three blocks of 64, not 128 and 64
    k = _power_of_two(step, most_k)
    n = _power_of_two(tile[0] * tile[1] * outer, most_n)
    if not warps:
        warps = 8 if (k * n if kind == "weight_gradient" else m * n) >= 8192 else 4
    return Blocks(tile, m, n, k, step, warps, stages, rows)


def _power_of_two(size: int, most: int) -> int:
    return min(max(int(triton.next_power_of_2(size)), 16), most)


def _patch(
    kind: str, tile: Sequence[int], kernel: Sequence[int], stride: Sequence[int], inner: int
) -> tuple[int, int]:
    """The most rows a patch can have, and the values in a row of it."""
    if kind == "input_gradient":
        height, width = ((t + k - 2) // s + 1 for t, k, s in zip(tile, kernel, stride, strict=True))
    else:
        height, width = ((t - 1) * s + k for t, k, s in zip(tile, kernel, stride, strict=True))
    return height, width * inner


@triton.jit
def _gather(
    x, image, row, col, k, k_end, used, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    SPAN: tl.constexpr,
):  # fmt: skip
    """[m, k]: channel k % C of the pixel that is k // C into the patch or tile at (row, col).

    `SPAN` is the width of that patch or tile in pixels; what lies outside of the image is 0.
    """
    down = k // C // SPAN
    right = k // C % SPAN
    rows = row[:, None] + down[None, :]
    cols = col[:, None] + right[None, :]
    inside = (rows >= 0) & (rows < H) & (cols >= 0) & (cols < W)
    start = ((image * H + row) * W + col) * C
    offset = (down * W + right) * C + k % C
    return tl.load(
        x + start[:, None] + offset[None, :],
        mask=inside & used[:, None] & (k < k_end)[None, :],
        other=0.0,
    )


@triton.jit(do_not_specialize=["batch"])
def _correlate_kernel(
    x, w, y, x_lane, w_lane, y_lane, batch, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    BACKWARD: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Tiles of y from patches of x; backward, y is the gradient of what was x in the forward."""
    # Pixel p of tile u is row u * TILE_H + p of y. It meets row u * MOVE_H + d of x with the tap
    # d + PH - SH * p forward and p + PH - SH * d backward; FIRST_H is the least d of any tap.
    if BACKWARD:
        MOVE_H: tl.constexpr = TILE_H // SH
        MOVE_W: tl.constexpr = TILE_W // SW
        FIRST_H: tl.constexpr = -((KH - 1 - PH) // SH)
        FIRST_W: tl.constexpr = -((KW - 1 - PW) // SW)
        SPAN_H: tl.constexpr = (TILE_H - 1 + PH) // SH - FIRST_H + 1
        SPAN_W: tl.constexpr = (TILE_W - 1 + PW) // SW - FIRST_W + 1
    else:
        MOVE_H: tl.constexpr = TILE_H * SH
        MOVE_W: tl.constexpr = TILE_W * SW
        FIRST_H: tl.constexpr = -PH
        FIRST_W: tl.constexpr = -PW
        SPAN_H: tl.constexpr = (TILE_H - 1) * SH + KH
        SPAN_W: tl.constexpr = (TILE_W - 1) * SW + KW
    GRID_H: tl.constexpr = (OH + TILE_H - 1) // TILE_H
    GRID_W: tl.constexpr = (OW + TILE_W - 1) // TILE_W
    K: tl.constexpr = SPAN_H * SPAN_W * C

    lane = tl.program_id(2).to(tl.int64)
    x += lane * x_lane
    w += lane * w_lane
    y += lane * y_lane
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    image = m // (GRID_H * GRID_W)
    u = m // GRID_W % GRID_H
    v = m % GRID_W
    row = u * MOVE_H + FIRST_H
    col = v * MOVE_W + FIRST_W
    used = image < batch
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    o = n % O
    p = n // O // TILE_W
    q = n // O % TILE_W
    n_used = n < TILE_H * TILE_W * O

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k_start in range(0, K, STEP):
        k = k_start + tl.arange(0, BLOCK_K)
        k_end = min(k_start + STEP, K)
        patch = _gather(x, image, row, col, k, k_end, used, H, W, C, SPAN_W)
        c = k % C
        down = k // C // SPAN_W + FIRST_H
        right = k // C % SPAN_W + FIRST_W
        if BACKWARD:
            i = p[None, :] + PH - SH * down[:, None]
            j = q[None, :] + PW - SW * right[:, None]
            place = (i * KW + j) * (O * C) + o[None, :] * C + c[:, None]
        else:
            i = down[:, None] + PH - SH * p[None, :]
            j = right[:, None] + PW - SW * q[None, :]
            place = (i * KW + j) * (C * O) + c[:, None] * O + o[None, :]
        tap = (i >= 0) & (i < KH) & (j >= 0) & (j < KW)
        weight = tl.load(w + place, mask=tap & (k < k_end)[:, None] & n_used[None, :], other=0.0)
        total = tl.dot(patch, weight, total, input_precision=PRECISION)

    rows = (u * TILE_H)[:, None] + p[None, :]
    cols = (v * TILE_W)[:, None] + q[None, :]
    start = ((image * OH + u * TILE_H) * OW + v * TILE_W) * O
    offset = (p * OW + q) * O + o
    tl.store(
        y + start[:, None] + offset[None, :],
        total.to(y.dtype.element_ty),
        mask=used[:, None] & n_used[None, :] & (rows < OH) & (cols < OW),
    )


@triton.jit(do_not_specialize=["batch", "share"])
def _weight_gradient_kernel(
    gy, x, parts, gy_lane, x_lane, batch, share, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """parts[split, lane, k, n]: patch times tile, summed over the `share` tiles of the split."""
    SPAN_W: tl.constexpr = (TILE_W - 1) * SW + KW
    K: tl.constexpr = ((TILE_H - 1) * SH + KH) * SPAN_W * C
    N: tl.constexpr = TILE_H * TILE_W * O
    GRID_H: tl.constexpr = (OH + TILE_H - 1) // TILE_H
    GRID_W: tl.constexpr = (OW + TILE_W - 1) // TILE_W
    # The blocks of k, which read the same pixels, are neighbours in the order of the programs.
    K_BLOCKS: tl.constexpr = (K + STEP - 1) // STEP
    k_start = tl.program_id(0) % K_BLOCKS * STEP
    k = k_start + tl.arange(0, BLOCK_K)
    k_end = min(k_start + STEP, K)
    n = tl.program_id(0) // K_BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)
    split = tl.program_id(1)
    lane = tl.program_id(2).to(tl.int64)
    x += lane * x_lane
    gy += lane * gy_lane
    parts += (split * tl.num_programs(2) + lane) * (K * N)

    end = min((split + 1) * share, batch * (GRID_H * GRID_W))
    total = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    for first in range(split * share, end, BLOCK_M):
        m = first + tl.arange(0, BLOCK_M)
        used = m < end
        image = m // (GRID_H * GRID_W)
        row = m // GRID_W % GRID_H * TILE_H
        col = m % GRID_W * TILE_W
        patch = _gather(x, image, row * SH - PH, col * SW - PW, k, k_end, used, H, W, C, SPAN_W)
        tile = _gather(gy, image, row, col, n, N, used, OH, OW, O, TILE_W)
        total = tl.dot(tl.trans(patch), tile, total, input_precision=PRECISION)
    tl.store(
        parts + k[:, None] * N + n[None, :], total, mask=(k < k_end)[:, None] & (n < N)[None, :]
    )


@triton.jit
def _row(
    x, image, r, col, k, k_end, used, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """[m, k]: the values from pixel (r, col) on, neighbours in memory; outside of the image 0."""
    cols = col[:, None] + (k // C)[None, :]
    inside = used[:, None] & (k < k_end)[None, :] & (cols >= 0) & (cols < W)
    start = (image * (H * W) + col) * C
    place = start[:, None] + k[None, :]
    return tl.load(x + r * (W * C) + place, mask=inside & (r >= 0) & (r < H), other=0.0)


@triton.jit(do_not_specialize=["batch", "rows"])
def _correlate_rows_kernel(
    x, w, y, x_lane, w_lane, y_lane, batch, rows, H: tl.constexpr, W: tl.constexpr,
    C: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr,
    KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    BACKWARD: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """As `_correlate_kernel` for 3 rows of taps and stride 1, down `rows` rows of y.

    A row of x is read once and added to the three rows of y that it meets; weights stay.
    """
    # Backward is forward with the taps in reverse order.
    TOP: tl.constexpr = KH - 1 - PH if BACKWARD else PH
    LEFT: tl.constexpr = KW - 1 - PW if BACKWARD else PW
    K: tl.constexpr = (TILE_W + KW - 1) * C
    CHUNKS: tl.constexpr = (K + STEP - 1) // STEP
    GRID_W: tl.constexpr = (OW + TILE_W - 1) // TILE_W
    N_BLOCKS: tl.constexpr = (TILE_W * O + BLOCK_N - 1) // BLOCK_N

    lane = tl.program_id(2).to(tl.int64)
    x += lane * x_lane
    w += lane * w_lane
    y += lane * y_lane
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    image = m // GRID_W
    col = m % GRID_W * TILE_W
    used = image < batch
    n = tl.program_id(1) % N_BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)
    o = n % O
    q = n // O

    weights = ()
    for chunk in tl.static_range(CHUNKS):
        k = chunk * STEP + tl.arange(0, BLOCK_K)
        k_used = k < min(chunk * STEP + STEP, K)
        j = (k // C)[:, None] - q[None, :]
        tap = (j >= 0) & (j < KW) & k_used[:, None] & (n < TILE_W * O)[None, :]
        for i in tl.static_range(3):
            if BACKWARD:
                place = ((2 - i) * KW + KW - 1 - j) * (O * C) + o[None, :] * C + (k % C)[:, None]
            else:
                place = (i * KW + j) * (C * O) + (k % C)[:, None] * O + o[None, :]
            weights = weights + (tl.load(w + place, mask=tap, other=0.0),)  # type: ignore[assignment]  # noqa: RUF005

    to = y + ((image * (OH * OW) + col) * O)[:, None] + n[None, :]
    to_used = used[:, None] & (n < TILE_W * O)[None, :] & (col[:, None] + q[None, :] < OW)
    first = tl.program_id(1) // N_BLOCKS * rows
    last = min(first + rows, OH)
    begin = first - TOP
    end = last - TOP + 2
    if TOP <= 2:  # rows outside of the image add nothing, and at most two are left to store
        begin = max(begin, 0)
        end = min(end, H)
    zero = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # Of the three rows of y that meet row r, `older` and `newer` will meet the next ones as well.
    older = zero
    newer = zero
    for r in range(begin, end):
        done = older
        older = newer
        newer = zero
        for chunk in tl.static_range(CHUNKS):
            k = chunk * STEP + tl.arange(0, BLOCK_K)
            patch = _row(
                x, image, r, col - LEFT, k, min(chunk * STEP + STEP, K), used, H, W, C
            )  # fmt: skip
            newer = tl.dot(patch, weights[3 * chunk], newer, input_precision=PRECISION)
            older = tl.dot(patch, weights[3 * chunk + 1], older, input_precision=PRECISION)
            done = tl.dot(patch, weights[3 * chunk + 2], done, input_precision=PRECISION)
        at = r + TOP - 2
        tl.store(
            to + at * (OW * O), done.to(y.dtype.element_ty),
            mask=to_used & (at >= first) & (at < last),
        )  # fmt: skip
    at = end + TOP - 2
    tl.store(
        to + at * (OW * O), older.to(y.dtype.element_ty),
        mask=to_used & (at >= first) & (at < last),
    )  # fmt: skip
    at = end + TOP - 1
    tl.store(
        to + at * (OW * O), newer.to(y.dtype.element_ty),
        mask=to_used & (at >= first) & (at < last),
    )  # fmt: skip


@triton.jit(do_not_specialize=["batch", "share"])
def _weight_gradient_rows_kernel(
    gy, x, parts, gy_lane, x_lane, batch, share, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """As `_weight_gradient_kernel` for 3 rows of taps and stride 1; rows are read once each."""
    K: tl.constexpr = (TILE_W + KW - 1) * C
    N: tl.constexpr = TILE_W * O
    GRID_W: tl.constexpr = (OW + TILE_W - 1) // TILE_W
    K_BLOCKS: tl.constexpr = (K + STEP - 1) // STEP
    ROWS: tl.constexpr = min(H + PH, OH + 2)
    k_start = tl.program_id(0) % K_BLOCKS * STEP
    k = k_start + tl.arange(0, BLOCK_K)
    k_end = min(k_start + STEP, K)
    n = tl.program_id(0) // K_BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)
    split = tl.program_id(1)
    lane = tl.program_id(2).to(tl.int64)
    x += lane * x_lane
    gy += lane * gy_lane
    parts += (split * tl.num_programs(2) + lane) * (3 * K * N)

    begin = split * share
    end = min(begin + share, batch * GRID_W)
    top = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    middle = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    bottom = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    # Rows r - 1 and r - 2 of gy.
    older = tl.zeros((BLOCK_M, BLOCK_N), gy.dtype.element_ty)
    oldest = tl.zeros((BLOCK_M, BLOCK_N), gy.dtype.element_ty)
    for turn in range((end - begin + BLOCK_M - 1) // BLOCK_M * ROWS):
        r = turn % ROWS
        m = begin + turn // ROWS * BLOCK_M + tl.arange(0, BLOCK_M)
        image = m // GRID_W
        col = m % GRID_W * TILE_W
        patch = tl.trans(_row(x, image, r - PH, col - PW, k, k_end, m < end, H, W, C))
        tile = _row(gy, image, r, col, n, N, m < end, OH, OW, O)
        older = tl.where(r == 0, 0.0, older).to(gy.dtype.element_ty)
        oldest = tl.where(r == 0, 0.0, oldest).to(gy.dtype.element_ty)
        top = tl.dot(patch, tile, top, input_precision=PRECISION)
        middle = tl.dot(patch, older, middle, input_precision=PRECISION)
        bottom = tl.dot(patch, oldest, bottom, input_precision=PRECISION)
        oldest = older
        older = tile
    to = parts + k[:, None] * N + n[None, :]
    to_used = (k < k_end)[:, None] & (n < N)[None, :]
    tl.store(to, top, mask=to_used)
    tl.store(to + K * N, middle, mask=to_used)
    tl.store(to + 2 * K * N, bottom, mask=to_used)


@triton.jit(do_not_specialize=["splits"])
def _add_parts_kernel(
    parts, gw, splits, C: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The weights' gradient: over splits and pixels of the tile, what is a tap away from each."""
    SPAN_W: tl.constexpr = (TILE_W - 1) * SW + KW
    K: tl.constexpr = ((TILE_H - 1) * SH + KH) * SPAN_W * C
    N: tl.constexpr = TILE_H * TILE_W * O
    lane = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    used = index < KH * KW * C * O
    o = index % O
    c = index // O % C
    i = index // (O * C * KW)
    j = index // (O * C) % KW
    parts += lane * (K * N)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(splits):
        for p in tl.static_range(TILE_H):
            for q in tl.static_range(TILE_W):
                k = ((i + SH * p) * SPAN_W + j + SW * q) * C + c
                total += tl.load(parts + k * N + (p * TILE_W + q) * O + o, mask=used, other=0.0)
        parts += tl.num_programs(1).to(tl.int64) * (K * N)
    tl.store(gw + lane * (KH * KW * C * O) + index, total, mask=used)


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
            _correlate_rows_kernel[grid](x, w, y, *strides, batch, rows, **constants)
        else:
            grid = (triton.cdiv(batch * _tiles(hw, blocks.tile), blocks.m), cuts, lanes)
            _correlate_kernel[grid](x, w, y, *strides, batch, **constants)
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
    rows, row = _patch("weight_gradient", blocks.tile, kernel_hw, stride, x.shape[-1])
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
        kernel = _weight_gradient_rows_kernel if blocks.rows else _weight_gradient_kernel
        kernel[cuts, splits, lanes](
            gy, x, parts, gy.stride(0), x.stride(0), batch, share, **constants
        )
        _add_parts_kernel[triton.cdiv(gw[0].numel(), 512), lanes](
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
