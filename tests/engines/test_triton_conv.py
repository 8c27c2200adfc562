"""The Triton convolutions against torch's, lane by lane in float64.

On a GPU where there is one, else (with TRITON_INTERPRET=1) by Triton's interpreter.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ..interpreter import CUDA, DEVICE, interpreter  # isort: skip  (ends here without Triton)
from fedfor.engines.vector import triton_conv
from fedfor.engines.vector.convolution import _with_own_kernels, stacked_convolution
from fedfor.engines.vector.triton_blocks import Blocks, make_blocks

__all__ = ["interpreter"]

# lanes, batch, (H, W), channels in and out, kernel, stride, padding
SHAPES = {
    "first": (2, 3, (8, 8), 3, 16, (3, 3), (1, 1), (1, 1)),
    "narrow": (2, 3, (8, 8), 16, 16, (3, 3), (1, 1), (1, 1)),
    "narrow-stride": (2, 3, (8, 8), 16, 32, (3, 3), (2, 2), (1, 1)),
    "middle": (2, 3, (8, 8), 32, 32, (3, 3), (1, 1), (1, 1)),
    "wide": (1, 5, (8, 8), 64, 64, (3, 3), (1, 1), (1, 1)),
    "wider": (1, 2, (5, 5), 96, 80, (3, 3), (1, 1), (0, 0)),
    "unpadded": (2, 3, (10, 10), 3, 32, (3, 3), (1, 1), (0, 0)),
    "odd": (3, 5, (7, 9), 5, 7, (3, 3), (1, 1), (1, 1)),
    "odd-stride": (3, 5, (9, 7), 5, 7, (3, 3), (2, 2), (1, 1)),
    "flat": (2, 3, (6, 11), 7, 5, (2, 3), (1, 2), (0, 2)),
    "large-kernel": (2, 2, (9, 8), 4, 6, (5, 5), (1, 1), (2, 2)),
    "pointwise": (2, 3, (7, 5), 16, 24, (1, 1), (1, 1), (0, 0)),
    "pointwise-stride": (2, 3, (7, 6), 16, 32, (1, 1), (2, 2), (0, 0)),
    "stride-beyond-kernel": (2, 2, (9, 9), 6, 6, (2, 2), (3, 3), (1, 1)),
    "padding-beyond-kernel": (2, 2, (5, 5), 6, 6, (2, 2), (1, 1), (2, 2)),
    "padding-beyond-rows": (2, 2, (5, 6), 6, 6, (3, 3), (1, 1), (3, 3)),
    "splits": (1, 10, (16, 16), 3, 16, (3, 3), (1, 1), (1, 1)),
}
SHARED = {"middle", "odd-stride"}  # one kernel for all lanes: lane stride 0
DTYPES = {
    "ieee": (torch.float32, False, 1e-5),
    "tf32": (torch.float32, True, 2e-3),
    "bf16": (torch.bfloat16, True, 1e-2),
    "fp16": (torch.float16, True, 2e-3),
}
if not CUDA:
    del DTYPES["bf16"]  # the interpreter multiplies their bits


def error(ours: Tensor, exact: Tensor) -> float:
    exact = exact.detach()
    return float((ours.double() - exact).norm() / exact.norm())


def draw(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, dtype)


@pytest.mark.parametrize("numbers", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_torch(shape: str, numbers: str) -> None:
    lanes, batch, hw, channels, out, kernel, stride, padding = SHAPES[shape]
    dtype, tf32, limit = DTYPES[numbers]
    x = draw(lanes, batch, *hw, channels, dtype=dtype, seed=0)
    w = draw(1 if shape in SHARED else lanes, *kernel, channels, out, dtype=dtype, seed=1)
    w = w.expand(lanes, *w.shape[1:])

    wide_x = x.double().permute(0, 1, 4, 2, 3).requires_grad_()
    wide_w = w.double().permute(0, 4, 3, 1, 2).requires_grad_()
    pairs = zip(wide_x, wide_w, strict=True)
    exact = torch.stack([F.conv2d(a, b, stride=stride, padding=padding) for a, b in pairs])
    gy = draw(*exact.permute(0, 1, 3, 4, 2).shape, dtype=dtype, seed=2)
    grad_x, grad_w = torch.autograd.grad(
        exact, (wide_x, wide_w), gy.double().permute(0, 1, 4, 2, 3)
    )

    rest = (list(stride), list(padding), tf32)
    y = triton_conv.conv_forward(x, w, *rest)
    gx = triton_conv.conv_input_gradient(gy, w, list(hw), *rest)
    gw = triton_conv.conv_weight_gradient(gy, x, list(kernel), *rest)
    assert (y.dtype, gx.dtype, gw.dtype) == (dtype, dtype, torch.float32)
    assert (y.shape, gx.shape, gw.shape) == (gy.shape, x.shape, w.shape)
    assert error(y, exact.permute(0, 1, 3, 4, 2)) < limit
    assert error(gx, grad_x.permute(0, 1, 3, 4, 2)) < limit
    assert error(gw, grad_w.permute(0, 3, 4, 2, 1)) < limit


ROWS = [name for name, shape in SHAPES.items() if shape[5] == (3, 3) and shape[6] == (1, 1)]


@pytest.mark.parametrize("tile", [(1, 1), (1, 2), (1, 4)])
@pytest.mark.parametrize("shape", ROWS)
def test_rows_agree_with_torch(
    shape: str, tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels that walk down the rows, also where they are not the choice."""

    def choose(kind: str, *rest: Any) -> Blocks:
        return make_blocks(kind, tile, *rest[:4], 16, 64, 64, 4, 1, True)

    monkeypatch.setattr(triton_conv, "choose_blocks", choose)
    test_agrees_with_torch(shape, "tf32")


def test_lanes_of_a_larger_tensor() -> None:
    """Every other lane of x: a lane stride that is not the size of a lane."""
    x = draw(4, 2, 6, 6, 5, dtype=torch.float32, seed=0)
    w = draw(2, 3, 3, 5, 7, dtype=torch.float32, seed=1)
    rest = ([1, 1], [1, 1], False)
    y = triton_conv.conv_forward(x[::2], w, *rest)
    assert torch.equal(y, triton_conv.conv_forward(x[::2].contiguous(), w, *rest))
    gw = triton_conv.conv_weight_gradient(y, x[::2], [3, 3], *rest)
    again = triton_conv.conv_weight_gradient(y, x[::2].contiguous(), [3, 3], *rest)
    assert torch.equal(gw, again)


@pytest.mark.parametrize("shape", ["middle", "odd-stride", "large-kernel"])
def test_squares_of_samples(shape: str) -> None:
    """The sum over samples of squared gradients, beside torch's in float64."""
    lanes, batch, hw, c, o, kernel, stride, padding = SHAPES[shape]
    x = draw(lanes, batch, c, *hw, dtype=torch.float32, seed=0)
    w = draw(lanes, o, c, *kernel, dtype=torch.float32, seed=1)
    found = []
    for exact in (False, True):
        x_, w_ = ((t.double() if exact else t).detach().requires_grad_() for t in (x, w))
        if exact:
            y = stacked_convolution(x_, w_, None, stride, padding, 1, 1, squared=True)
        else:
            y = _with_own_kernels(x_, w_, stride, padding, False, squared=True)
        g = draw(*y.shape, dtype=torch.float32, seed=2).to(y.dtype)
        found.append([y.detach(), *torch.autograd.grad(y, [x_, w_], g)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        assert error(ours, theirs) < 1e-5


def test_inner_axes_must_be_contiguous() -> None:
    x = draw(2, 2, 6, 6, 5, dtype=torch.float32, seed=0).transpose(2, 3)
    w = draw(2, 3, 3, 5, 7, dtype=torch.float32, seed=1)
    with pytest.raises(ValueError, match="contiguous"):
        triton_conv.conv_forward(x, w, [1, 1], [1, 1], False)


def test_shapes_without_data() -> None:
    """What make_fx and torch.compile see."""
    x = torch.empty(2, 4, 9, 8, 3, dtype=torch.bfloat16, device="meta")
    w = torch.empty(2, 3, 3, 3, 5, dtype=torch.bfloat16, device="meta")
    rest = ([2, 2], [1, 1], True)
    y = triton_conv.conv_forward(x, w, *rest)
    assert (y.shape, y.dtype) == ((2, 4, 5, 4, 5), torch.bfloat16)
    gx = triton_conv.conv_input_gradient(y, w, [9, 8], *rest)
    assert (gx.shape, gx.dtype) == (x.shape, torch.bfloat16)
    gw = triton_conv.conv_weight_gradient(y, x, [3, 3], *rest)
    assert (gw.shape, gw.dtype) == (w.shape, torch.float32)
