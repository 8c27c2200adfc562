"""A stack of models in evaluation, whose gradients are sums of the samples' squared gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from ...tensors import Tensors
from .convolution import has_kernels, with_own_kernels
from .layers import StackedLayers, normalised
from .squares import CONVOLVE, SquaredBias, SquaredConvolution, SquaredLinear, SquaredScale

LOOKS = {getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim")} | {
    Tensor.size,
    Tensor.dim,
}
"""What a forward may ask of a parameter without computing with it."""


class CannotSquareError(Exception):
    """Something in the model makes more of a parameter than one layer that is known here."""


class SquaredLayers(StackedLayers):
    """Within, `backward` leaves for each parameter the sum over samples of squared gradients.

    That holds for a parameter that one linear layer, convolution or batch norm takes, once. Any
    other use that Python sees is refused; what TorchScript does is not seen.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._unused: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def watch(self, params: Tensors) -> None:
        """These are the parameters, as the forward will see them."""
        self._names = {id(p): name for name, p in params.items()}
        self._unused = dict(self._names)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func not in LOOKS:
            for given in pytree.tree_leaves((args, kwargs)):
                if id(given) in self._names:
                    first = args[0] if args else (kwargs or {}).get("input")
                    self._take(func, given, first)
        return super().__torch_function__(func, types, args, kwargs)

    def _take(self, func: Callable[..., Any], parameter: Tensor, of: object) -> None:
        layers = (self._linear, self._convolution, self._batch_norm)
        known = self._rules.get(func) in layers and of is not parameter
        if not known or self._unused.pop(id(parameter), None) is None:
            raise CannotSquareError(self._names[id(parameter)])

    def _require_samples(self, x: Tensor, axes: int | None = None) -> None:
        if x.shape[1] != self.batch or (axes is not None and x.ndim != axes):
            raise CannotSquareError("a layer on something else than a batch of samples")

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
        def rule(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            self._require_samples(x, axes=3)
            x_, w_, b_ = self._cast(x, w, b)
            return _with_bias(SquaredLinear.apply(x_, w_), b_)  # type: ignore[no-untyped-call]

        return self._apply(rule, F.linear, input, weight, bias)

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
        if isinstance(padding, str):
            raise CannotSquareError(f"padding={padding!r}")

        def rule(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            self._require_samples(x, axes=w.ndim)
            x_, w_, b_ = self._cast(x, w, b)
            assert x_ is not None
            assert w_ is not None
            if has_kernels(x_, w_, padding, dilation, groups):
                y = with_own_kernels(x_, w_, stride, padding, self.tf32, squared=True)
            else:
                how = stride, padding, dilation, groups
                y = SquaredConvolution.apply(x_, w_, *how)  # type: ignore[no-untyped-call]
            return _with_bias(y, b_)

        def plain(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            return CONVOLVE[w.ndim](x, w, b, stride, padding, dilation, groups)

        return self._apply(rule, plain, input, weight, bias)

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
        if training:
            raise CannotSquareError("batch norm with the statistics of the batch")

        def rule(
            x: Tensor, mean: Tensor | None, var: Tensor | None, w: Tensor | None, b: Tensor | None
        ) -> Tensor:
            self._require_samples(x)
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            y = normalised(wide, mean, var, None, None, eps)
            if w is not None:
                y = SquaredScale.apply(y, w)  # type: ignore[no-untyped-call]
            return _with_bias(y, b).to(x.dtype)

        def plain(
            x: Tensor, mean: Tensor | None, var: Tensor | None, w: Tensor | None, b: Tensor | None
        ) -> Tensor:
            return F.batch_norm(x, mean, var, w, b, False, momentum, eps)

        return self._apply(rule, plain, input, running_mean, running_var, weight, bias)


def _with_bias(y: Tensor, b: Tensor | None) -> Tensor:
    if b is None:
        return y
    with_it: Tensor = SquaredBias.apply(y, b)  # type: ignore[no-untyped-call]
    return with_it
