"""Convolutions that walk down the rows of an image: kernels of 3 rows, stride 1."""

# Kernels are written in Triton's language, which has no types for its tensors.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-redef"

import triton
import triton.language as tl


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
def correlate_rows_kernel(
    x, w, y, x_lane, w_lane, y_lane, batch, rows, H: tl.constexpr, W: tl.constexpr,
    C: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr,
    KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    BACKWARD: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """As `correlate_kernel` for 3 rows of taps and stride 1, down `rows` rows of y.

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
def weight_gradient_rows_kernel(
    gy, x, parts, gy_lane, x_lane, batch, share, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """As `weight_gradient_kernel` for 3 rows of taps and stride 1; rows are read once each."""
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
