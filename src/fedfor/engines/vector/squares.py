"""Parameters whose gradient is a sum of squares: that of each sample's own gradient.

With them one backward of a whole batch gives what a Fisher diagonal is made of. What goes back to a
layer's input is the plain gradient. Every tensor has the client first and the sample second.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function


class CannotSquareError(Exception):
    """Something in the model makes more of a parameter than one layer that is known here."""


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


def plus_bias(y: Tensor, b: Tensor | None, squared: bool) -> Tensor:
    """Added to each channel."""
    if b is None:
        return y
    if not squared:
        return y + to_channels(b, y)
    with_it: Tensor = _SquaredBias.apply(y, b)  # type: ignore[no-untyped-call]
    return with_it


class _SquaredBias(Function):
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
