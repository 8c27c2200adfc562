"""A convolution for each client, all at once."""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function

from .squares import CannotSquareError, plus_bias, sum_of_squares

CONVOLVE = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
"""By the axes of its weights."""

FEW_CHANNELS = 4


def stacked_convolution(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    tf32: bool = False,
    squared: bool = False,
) -> Tensor:
    """x [clients, batch, channels, ...] with w [clients, out, channels, ...].

    `squared`: the gradient of w and b is the sum of the squares of each sample's.
    """
    plain = w.ndim == 5 and groups == 1 and not isinstance(padding, str)
    ours = x.is_cuda and plain and x.dtype != torch.float64 and _pair(dilation) == (1, 1)
    if ours and _kernels() is not None:
        y = _with_own_kernels(x, w, _pair(stride), _pair(padding), tf32, squared)
        return plus_bias(y, b, squared)
    if squared:
        if isinstance(padding, str):
            raise CannotSquareError(f"padding={padding!r}")
        how = stride, padding, dilation, groups
        y = _SquaredConvolution.apply(x, w, *how)  # type: ignore[no-untyped-call]
        return plus_bias(y, b, squared)
    if x.device.type == "cpu" and plain and x.shape[2] <= FEW_CHANNELS and not x.requires_grad:
        return _as_patches(x, w, b, stride, padding, dilation)
    return _as_channel_groups(x, w, b, stride, padding, dilation, groups)


def _as_channel_groups(
    x: Tensor, w: Tensor, b: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """All clients' channels side by side, each client a group of one wide convolution.

    The result keeps that order in memory, so a chain of layers is not copied back and forth.
    """
    clients, batch = x.shape[:2]
    wide = x.transpose(0, 1).reshape(batch, -1, *x.shape[3:])
    bias = None if b is None else b.reshape(-1)
    y = CONVOLVE[w.ndim - 1](
        wide, w.reshape(-1, *w.shape[2:]), bias, stride, padding, dilation, clients * groups
    )
    return y.reshape(batch, clients, -1, *y.shape[2:]).transpose(0, 1)


def _as_patches(
    x: Tensor, w: Tensor, b: Tensor | None, stride: Any, padding: Any, dilation: Any
) -> Tensor:
    """All patches written out, then one product for each client and sample.

    On a CPU the fastest for images, which have few channels and need no gradient.
    """
    clients, batch = x.shape[:2]
    kernel = w.shape[3:]
    patches = F.unfold(x.flatten(0, 1), kernel, dilation, padding, stride)
    y = torch.matmul(w.flatten(2)[:, None], patches.view(clients, batch, *patches.shape[1:]))
    if b is not None:
        y = y.add_(b[:, None, :, None])
    size = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(
            x.shape[3:], kernel, _pair(stride), _pair(padding), _pair(dilation), strict=True
        )
    ]
    return y.reshape(*y.shape[:3], *size)


def _with_own_kernels(
    x: Tensor,
    w: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    tf32: bool,
    squared: bool,
) -> Tensor:
    """Clients first and channels last in memory: each client's images are whole."""
    y: Tensor = _Convolution.apply(  # type: ignore[no-untyped-call]
        x.permute(0, 1, 3, 4, 2).contiguous(),
        w.permute(0, 3, 4, 2, 1).contiguous(),
        list(stride),
        list(padding),
        tf32,
        squared,
    )
    return y.permute(0, 1, 4, 2, 3)


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        stride: list[int],
        padding: list[int],
        tf32: bool,
        squared: bool,
    ) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.how, ctx.squared = (stride, padding, tf32), squared
        y: Tensor = torch.ops.fedfor.conv_forward(x, w, stride, padding, tf32)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = gradients[0].contiguous()
        gx = gw = None
        if ctx.needs_input_grad[0]:  # not for the first layer: images have no gradient
            size = list(x.shape[2:4])
            gx = torch.ops.fedfor.conv_input_gradient(g, w, size, *ctx.how)
        if ctx.needs_input_grad[1]:
            kernel = list(w.shape[1:3])
            if ctx.squared:  # each sample is a lane of its own
                lanes = [t.flatten(0, 1)[:, None] for t in (g, x)]
                of_samples = torch.ops.fedfor.conv_weight_gradient(*lanes, kernel, *ctx.how)
                gw = sum_of_squares(of_samples.unflatten(0, x.shape[:2])).to(w.dtype)
            else:
                gw = torch.ops.fedfor.conv_weight_gradient(g, x, kernel, *ctx.how).to(w.dtype)
        return gx, gw, None, None, None, None


class _SquaredConvolution(Function):
    """Clients are groups of one wide convolution; for the weights' gradient, samples are."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Tensor:
        ctx.save_for_backward(x, w)
        axes = w.ndim - 3
        ctx.how = [
            [v] * axes if isinstance(v, int) else list(v) for v in (stride, padding, dilation)
        ]
        ctx.groups = groups
        return _as_channel_groups(x, w, None, stride, padding, dilation, groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = gradients[0]
        clients, batch = x.shape[:2]
        stride, padding, dilation = ctx.how

        def back(g: Tensor, x: Tensor, w: Tensor, groups: int, which: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(
                g, x, w, None, stride, padding, dilation, False, [0] * len(stride), groups, which
            )

        gx = gw = None
        if ctx.needs_input_grad[0]:
            g_, x_ = (t.transpose(0, 1).reshape(batch, -1, *t.shape[3:]) for t in (g, x))
            gx = back(g_, x_, w.flatten(0, 1), clients * ctx.groups, [True, False, False])[0]
            gx = gx.reshape(batch, clients, -1, *gx.shape[2:]).transpose(0, 1)
        if ctx.needs_input_grad[1]:
            g_, x_ = (t.reshape(1, -1, *t.shape[3:]) for t in (g, x))
            each = w[:, None].expand(clients, batch, *w.shape[1:]).flatten(0, 2)
            many = clients * batch * ctx.groups
            of_samples = back(g_, x_, each, many, [False, True, False])[1]
            gw = sum_of_squares(of_samples.view(clients, batch, *w.shape[1:])).to(w.dtype)
        return gx, gw, None, None, None, None


@functools.cache
def _kernels() -> Any:
    """Our Triton kernels where there is a Triton."""
    try:
        from . import triton_conv
    except ImportError:
        return None
    return triton_conv


def _pair(value: Any) -> tuple[int, int]:
    a, b = (value, value) if isinstance(value, int) else value
    return int(a), int(b)
