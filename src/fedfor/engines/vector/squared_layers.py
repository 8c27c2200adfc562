"""A stack of models in evaluation, whose gradients are sums of the samples' squared gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...tensors import Tensors
from .layers import StackedLayers, normalised
from .squares import CannotSquareError, SquaredScale, plus_bias

LOOKS = {getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim")} | {
    Tensor.size,
    Tensor.dim,
}
"""What a forward may ask of a parameter without computing with it."""


class SquaredLayers(StackedLayers):
    """Within, `backward` leaves for each parameter the sum over samples of squared gradients.

    That holds for a parameter that one linear layer, convolution or batch norm takes, once. Any
    other use that Python sees is refused; what TorchScript does is not seen.
    """

    squared = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._unused: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def watch(self, params: Tensors) -> None:
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

    def _look(self, x: Tensor, axes: int) -> None:
        if x.shape[1] != self.batch or x.ndim != axes:
            raise CannotSquareError("a layer on something else than a batch of samples")

    def _require_batch_first(self, x: Tensor, layer: str) -> None:
        raise CannotSquareError(f"{layer} with all samples of the batch at once")

    def _normalised(
        self,
        x: Tensor,
        mean: Tensor | None,
        var: Tensor | None,
        w: Tensor | None,
        b: Tensor | None,
        eps: float,
    ) -> Tensor:
        self._look(x, x.ndim)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = normalised(wide, mean, var, None, None, eps)
        if w is not None:
            y = SquaredScale.apply(y, w)  # type: ignore[no-untyped-call]
        return plus_bias(y, b, squared=True).to(x.dtype)
