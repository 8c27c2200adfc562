"""Layers whose parameters' gradient is a sum of squares: that of each sample's own gradient.

With them one forward and one backward of a whole batch give what a Fisher diagonal is made of. What
goes back to a layer's input is the plain gradient, so layers can be chained. Every tensor has the
client first and the sample second.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function

CONVOLVE = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


def to_channels(per_channel: Tensor, x: Tensor) -> Tensor:
    """[clients, channels] against [clients, batch, channels, ...]."""
    return per_channel.view(per_channel.shape[0], 1, -1, *(1,) * (x.ndim - 3))


def sum_of_squares(of_samples: Tensor) -> Tensor:
    """Over the samples, in float32 at least."""
    wide = of_samples.to(torch.promote_types(of_samples.dtype, torch.float32))
    return wide.square().sum(1)


def _over_places(g: Tensor) -> Tensor:
    """[clients, samples, channels, ...]: a sample's gradient is a sum over its pixels."""
    wide = g.to(torch.promote_types(g.dtype, torch.float32))
    return wide.flatten(3).sum(3) if g.ndim > 3 else wide


class SquaredLinear(Function):
    """A sample's gradient is g x^T, of which the squares are products of squares."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return torch.bmm(x, w.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = gradients[0]
        gx = torch.bmm(g, w) if ctx.needs_input_grad[0] else None
        gw = torch.bmm(g.square().mT, x.square()) if ctx.needs_input_grad[1] else None
        return gx, gw


class SquaredBias(Function):
    """Added to each channel."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, b: Tensor) -> Tensor:
        ctx.dtype = b.dtype
        return y + to_channels(b, y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        g = gradients[0]
        gb = sum_of_squares(_over_places(g)).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        return g, gb


class SquaredScale(Function):
    """A factor for each channel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * to_channels(w, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = gradients[0]
        gx = g * to_channels(w, g) if ctx.needs_input_grad[0] else None
        gw = None
        if ctx.needs_input_grad[1]:
            gw = sum_of_squares(_over_places(g * x)).to(w.dtype)
        return gx, gw


class SquaredConvolution(Function):
    """All clients' channels side by side forward; for the weights, those of all samples."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Tensor:
        clients, batch = x.shape[:2]
        wide, weights = x.transpose(0, 1).reshape(batch, -1, *x.shape[3:]), w.flatten(0, 1)
        many = clients * groups
        y = CONVOLVE[w.ndim - 1](wide, weights, None, stride, padding, dilation, many)
        ctx.save_for_backward(x, w)
        axes = w.ndim - 3
        ctx.how = [
            [v] * axes if isinstance(v, int) else list(v) for v in (stride, padding, dilation)
        ]
        ctx.groups = groups
        return y.reshape(batch, clients, -1, *y.shape[2:]).transpose(0, 1)

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
