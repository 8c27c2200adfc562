"""Convolutions by patches and tiles of pixels: any kernel and stride."""

# Kernels are written in Triton's language, which has no types for its tensors.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-redef"

import triton
import triton.language as tl


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
def correlate_kernel(
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
def weight_gradient_kernel(
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


@triton.jit(do_not_specialize=["splits"])
def add_parts_kernel(
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
