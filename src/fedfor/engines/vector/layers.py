"""Layers of many models at once.

The author's own forward runs once for all clients, under torch.func.vmap, which knows most of
torch. The layers that it runs slowly, or wrongly where clients have fewer samples than others, are
caught on their way and given to the rules below, which see a leading client axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function
from torch.overrides import TorchFunctionMode

from ...tensors import Tensors
from .convolution import CONVOLVE, stacked_convolution
from .noise import FEATURE_AXES, Noise
from .squares import plus_bias, to_channels

Rule = Callable[..., Tensor]


class _Apply(Function):
    """Calls a rule with stacked tensors: what vmap hands over when it meets this function."""

    @staticmethod
    def forward(rule: Rule, plain: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
        return plain(*tensors)  # nothing in it belongs to a client: a constant of the model

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise NotImplementedError("a layer outside the clients' models has no gradient")

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        rule: Rule,
        plain: Callable[..., Tensor],
        *tensors: Tensor | None,
    ) -> tuple[Tensor, int]:
        clients = info.batch_size
        stacked = [
            None if t is None else t.expand(clients, *t.shape) if dim is None else t.movedim(dim, 0)
            for t, dim in zip(tensors, in_dims[2:], strict=True)
        ]
        return rule(*stacked), 0


class _Linear(Function):
    """A product for each client, whose weights' gradient lies in memory as the weights do.

    Autograd's own would be transposed, and slow to read where weights are many. A sample's gradient
    is g x^T, so its squares, if these are asked for, are products of squares.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, squared: bool) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.squared = squared
        return torch.bmm(x, w.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        g = gradients[0]
        gx = torch.bmm(g, w) if ctx.needs_input_grad[0] else None
        if ctx.squared:
            g, x = g.square(), x.square()
        gw = torch.bmm(g.mT, x) if ctx.needs_input_grad[1] else None
        return gx, gw, None


class _ChannelsLast(Function):
    """A layer with the channels last inside and not outside, in either direction."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Callable[[Tensor], Tensor]) -> Tensor:
        inside = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
        with torch.enable_grad():
            y = layer(inside)
        ctx.inside, ctx.y = inside, y
        return y.detach().contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        g = gradients[0].contiguous(memory_format=torch.channels_last)
        [gx] = torch.autograd.grad(ctx.y, ctx.inside, g)
        return gx.contiguous(), None


@dataclass
class StackedLayers(TorchFunctionMode):
    """Within, layers follow the rules for a stack of clients."""

    noise: Noise
    batch: int = 0
    """Samples of each client, padding included."""
    weight: Tensor | None = None
    """1 for a sample, 0 for padding, by client and place in the batch. None: no padding."""
    smallest: int = 2
    """The fewest samples that any client has in this batch."""
    compute: torch.dtype | None = None
    """What convolutions and products are computed in, if not in the type of the weights."""
    tf32: bool = False

    squared: ClassVar[bool] = False
    """Whether a parameter's gradient is the sum of the squares of each sample's."""

    def __post_init__(self) -> None:
        super().__init__()
        self._rules: dict[Callable[..., Any], Callable[..., Any]] = {
            F.linear: self._linear,
            F.batch_norm: self._batch_norm,
            F.dropout: self._dropout,
            F.embedding: self._embedding,
            F.max_pool2d: self._max_pool,
        }
        for drop, axes in FEATURE_AXES.items():
            self._rules[drop] = self._feature_dropout(drop, axes)
        for name in ("conv1d", "conv2d", "conv3d"):
            self._rules[getattr(F, name)] = self._rules[getattr(torch, name)] = self._convolution

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._rules.get(func, func)(*args, **(kwargs or {}))

    def _cast(self, *tensors: Tensor | None) -> list[Tensor | None]:
        return [t if t is None or self.compute is None else t.to(self.compute) for t in tensors]

    def _convolution(
        self,
        input: Tensor,  # noqa: A002
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        how = (stride, padding, dilation, groups)
        convolve = CONVOLVE[weight.ndim]
        alone = input.ndim == weight.ndim - 1  # a sample without a batch axis

        def rule(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            self._look(x, w.ndim)
            x_, w_, b_ = self._cast(x, w, b)
            assert x_ is not None
            assert w_ is not None
            return stacked_convolution(x_, w_, b_, *how, tf32=self.tf32, squared=self.squared)

        def plain(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            return convolve(x, w, b, *how)

        if alone:
            return self._apply(rule, plain, input[None], weight, bias)[0]
        return self._apply(rule, plain, input, weight, bias)

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
        def rule(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            self._look(x, 3)
            x_, w_, b_ = self._cast(x, w, b)
            assert x_ is not None
            assert w_ is not None
            rows = x_.reshape(len(x_), -1, x_.shape[-1])
            y: Tensor = _Linear.apply(rows, w_, self.squared)  # type: ignore[no-untyped-call]
            return plus_bias(y, b_, self.squared).reshape(*x_.shape[:-1], w_.shape[1])

        return self._apply(rule, F.linear, input, weight, bias)

    def _batch_norm(
        self,
        input: Tensor,  # noqa: A002
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if training and self.smallest * input[0, 0].numel() == 1:
            raise ValueError("Expected more than 1 value per channel when training")

        def rule(
            x: Tensor, mean: Tensor | None, var: Tensor | None, w: Tensor | None, b: Tensor | None
        ) -> Tensor:
            if not training:
                return self._normalised(x, mean, var, w, b, eps)
            self._require_batch_first(x, "batch norm")
            if self.weight is None and x.device.type == "cpu":
                return _batch_norm_as_channels(x, mean, var, w, b, momentum, eps)
            return _batch_norm(x, mean, var, w, b, momentum, eps, self.weight)

        def plain(
            x: Tensor, mean: Tensor | None, var: Tensor | None, w: Tensor | None, b: Tensor | None
        ) -> Tensor:
            return F.batch_norm(x, mean, var, w, b, training, momentum, eps)

        return self._apply(rule, plain, input, running_mean, running_var, weight, bias)

    def _normalised(
        self,
        x: Tensor,
        mean: Tensor | None,
        var: Tensor | None,
        w: Tensor | None,
        b: Tensor | None,
        eps: float,
    ) -> Tensor:
        return normalised(x, mean, var, w, b, eps)

    def watch(self, params: Tensors) -> None:
        """Told before a forward: the parameters as it will see them."""

    def _look(self, x: Tensor, axes: int) -> None:
        """At the input of a layer that takes so many axes, client and sample among them."""

    def _max_pool(self, input: Tensor, *how: Any, **named: Any) -> Any:  # noqa: A002
        def plain(x: Tensor) -> Any:
            return F.max_pool2d(x, *how, **named)

        def rule(x: Tensor) -> Tensor:
            clients, batch, channels = x.shape[:3]
            wide = x.transpose(0, 1).reshape(batch, clients * channels, *x.shape[3:])
            y: Tensor = _ChannelsLast.apply(wide, plain)  # type: ignore[no-untyped-call]
            return y.view(batch, clients, channels, *y.shape[2:]).transpose(0, 1)

        # On a CPU, torch pools many times faster with the channels last.
        if input.device.type != "cpu" or input.ndim != 4 or named.get("return_indices"):
            return plain(input)
        return self._apply(rule, plain, input)

    def _dropout(
        self,
        input: Tensor,  # noqa: A002
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        return self._times_noise(input, p, training, inplace, tuple(input.shape[1:]))

    def _feature_dropout(self, plain: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
        """Drops whole channels; input of other than so many axes means something else to torch."""

        def drop(
            input: Tensor,  # noqa: A002
            p: float = 0.5,
            training: bool = True,
            inplace: bool = False,
        ) -> Tensor:
            if input.ndim != axes:
                return plain(input, p, training, inplace)
            shape = (input.shape[1],) + (1,) * (axes - 2)
            return self._times_noise(input, p, training, inplace, shape)

        return drop

    def _times_noise(
        self, x: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
    ) -> Tensor:
        if not training or p == 0:
            return x

        def rule(x: Tensor) -> Tensor:
            if x.device.type == "cpu":
                self._require_batch_first(x, "dropout")
            noise = self.noise.draw(x, p, shape)
            return x.mul_(noise) if inplace else x * noise

        return self._apply(rule, lambda x: F.dropout(x, p, True, inplace), x)

    def _embedding(
        self,
        input: Tensor,  # noqa: A002
        weight: Tensor,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Tensor:
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise ValueError("an embedding with max_norm, scale_grad_by_freq or sparse")

        def rule(words: Tensor, w: Tensor) -> Tensor:
            """All clients' tables under one another."""
            clients, rows = w.shape[:2]
            first = torch.arange(clients, device=w.device).view(-1, *(1,) * (words.ndim - 1))
            # A word that is in no table must not be found in the table of another client.
            known = (words >= 0) & (words < rows)
            place = torch.where(known, words + first * rows, clients * rows)
            found = F.embedding(place, w.flatten(0, 1))
            if padding_idx is None:
                return found
            padding = (words == padding_idx % rows)[..., None]
            return torch.where(padding, found.detach(), found)

        return self._apply(rule, lambda i, w: F.embedding(i, w, padding_idx), input, weight)

    def _require_batch_first(self, x: Tensor, layer: str) -> None:
        if self.batch and x.shape[1] != self.batch:
            raise ValueError(f"{layer} on a tensor whose first axis is not the batch")

    @staticmethod
    def _apply(rule: Rule, plain: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
        result: Tensor = _Apply.apply(rule, plain, *tensors)  # type: ignore[no-untyped-call]
        return result


def _batch_norm_as_channels(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    w: Tensor | None,
    b: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """All clients' channels side by side, as one wide batch norm: the fastest on a CPU."""
    clients, batch, channels = x.shape[:3]
    wide = x.transpose(0, 1).reshape(batch, clients * channels, *x.shape[3:])
    w, b = (None if t is None else t.reshape(-1) for t in (w, b))
    # Clones: autograd saves the statistics it was given, so they must not change after.
    m, v = (None if t is None else t.reshape(-1).clone() for t in (mean, var))
    y = F.batch_norm(wide, m, v, w, b, True, momentum, eps)
    for held, updated in ((mean, m), (var, v)):
        if held is not None and updated is not None:
            held.copy_(updated.view_as(held))
    return y.reshape(batch, clients, channels, *x.shape[3:]).transpose(0, 1)


def _batch_norm(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    w: Tensor | None,
    b: Tensor | None,
    momentum: float,
    eps: float,
    weight: Tensor | None,
) -> Tensor:
    """With statistics over the samples alone: padding has no weight in them."""
    dims = [1, *range(3, x.ndim)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    a_sample = x[0, 0, 0].numel()
    if weight is None:
        count: Tensor | float = float(x.shape[1] * a_sample)
        batch_var, batch_mean = torch.var_mean(wide, dims, correction=0)
        less_one: Tensor | float = max(count - 1, 1)
    else:
        share = weight.to(wide.dtype).view(*weight.shape, *(1,) * (x.ndim - 2))
        count = (weight.sum(1, dtype=wide.dtype) * a_sample).clamp(min=1)[:, None]
        batch_mean = (wide * share).sum(dims) / count
        off = (wide - to_channels(batch_mean, x)) * share
        batch_var = off.square().sum(dims) / count
        less_one = (count - 1).clamp(min=1)
    if mean is not None and var is not None:
        with torch.no_grad():
            mean.lerp_(batch_mean.detach().to(mean.dtype), momentum)
            var.lerp_((batch_var.detach() * count / less_one).to(var.dtype), momentum)
    return normalised(x, batch_mean, batch_var, w, b, eps)


def normalised(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    w: Tensor | None,
    b: Tensor | None,
    eps: float,
) -> Tensor:
    assert mean is not None
    assert var is not None
    scale = torch.rsqrt(var + eps)
    if w is not None:
        scale = scale * w
    shift = -mean * scale if b is None else b - mean * scale
    wide = x.to(torch.promote_types(x.dtype, mean.dtype))
    return (wide * to_channels(scale, x) + to_channels(shift, x)).to(x.dtype)
