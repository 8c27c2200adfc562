"""How the work of a convolution is cut into blocks."""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Sequence
from typing import NamedTuple

import triton


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
    height, row = patch_size(kind, tile, kernel, stride, inner)
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


def patch_size(
    kind: str, tile: Sequence[int], kernel: Sequence[int], stride: Sequence[int], inner: int
) -> tuple[int, int]:
    """The most rows a patch can have, and the values in a row of it."""
    if kind == "input_gradient":
        height, width = ((t + k - 2) // s + 1 for t, k, s in zip(tile, kernel, stride, strict=True))
    else:
        height, width = ((t - 1) * s + k for t, k, s in zip(tile, kernel, stride, strict=True))
    return height, width * inner
