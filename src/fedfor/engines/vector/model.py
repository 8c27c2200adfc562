"""Many copies of a model, each with its own weights, in one forward and one backward."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ...algorithms.sharing import buffers
from ...tensors import Tensors
from ..fisher import Loss
from ..forward import places
from ..stacking import Precision
from .layers import StackedLayers
from .layout import Layout
from .loss import StackedLoss, quiet
from .noise import Noise, Recorded, Site
from .squared_layers import SquaredLayers


class StackedModel:
    def __init__(
        self, model: nn.Module, loss: Loss, device: torch.device, precision: Precision = "fp32"
    ) -> None:
        self.model, self.loss, self.device = model.to(device), StackedLoss(loss), device
        # TF32 is a GPU's; anywhere else it is fp32.
        self.precision: Precision = (
            "fp32" if precision == "tf32" and device.type != "cuda" else precision
        )
        self.layout = Layout(model)
        self.buffer_names = tuple(buffers(model))
        self._places = places(model)
        self.dtype = next((p.dtype for p in model.parameters()), torch.float32)
        self.like = torch.empty(0, dtype=self.dtype, device=device)
        self.sites: list[Site] = []
        self.unused: tuple[str, ...] = ()
        """Parameters that took no part in the outputs of the last training step."""
        self.draws = True
        """Whether the forward draws at random by other ways than dropout."""
        self.pads = True
        """Whether batches may be padded: otherwise only clients with like batches go together."""
        self.squares: bool | None = None
        """Whether squared gradients can be had from whole batches; None while nobody has asked."""

    def gradients(
        self,
        weights: Tensor,
        held: Tensors,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        noise: Noise,
        smallest: int = 2,
        train: bool = True,
    ) -> tuple[Tensors, Tensors, Tensor]:
        """Each client's gradient, its buffers after the batch, and its mean loss."""
        params = self._parameters(weights)
        held = {name: b.clone() for name, b in held.items()}
        layers = self._layers(StackedLayers, noise, x.shape[1], weight, smallest)
        with torch.enable_grad():
            outputs = self._forward(params, held, x, layers, train)
            losses = self.loss(outputs, y, weight)
            grads = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True)
        if train:
            self.unused = tuple(n for n, g in zip(params, grads, strict=True) if g is None)
        return _filled(params, grads), held, losses.detach()

    def squared_gradients(
        self, weights: Tensor, held: Tensors, x: Tensor, y: Tensor, weight: Tensor
    ) -> Tensors:
        """For each client, the sum over samples of each one's squared gradient, in evaluation."""
        params = self._parameters(weights)
        layers = self._layers(SquaredLayers, Recorded(), x.shape[1], weight)
        with torch.enable_grad():
            outputs = self._forward(params, held, x, layers, train=False)
            total = (self.loss(outputs, y, weight) * weight.sum(1)).sum()
            grads = torch.autograd.grad(total, list(params.values()), allow_unused=True)
        return _filled(params, grads)

    def _parameters(self, weights: Tensor) -> Tensors:
        return {n: p.detach().requires_grad_() for n, p in self.layout.split(weights).items()}

    def outputs(self, weights: Tensor, held: Tensors, x: Tensor, shared: bool) -> Tensor:
        """In evaluation. `shared`: all models see the same samples, x has no client axis."""
        with torch.no_grad():
            layers = self._layers(StackedLayers, Recorded(), 0 if shared else x.shape[1])
            return self._forward(self.layout.split(weights), held, x, layers, False, shared)

    def _layers(
        self,
        kind: type[StackedLayers],
        noise: Noise,
        batch: int,
        weight: Tensor | None = None,
        smallest: int = 2,
    ) -> StackedLayers:
        compute = torch.bfloat16 if self.precision == "bf16" else None
        return kind(noise, batch, weight, smallest, compute, self.precision != "fp32")

    def _forward(
        self,
        params: Tensors,
        held: Tensors,
        x: Tensor,
        layers: StackedLayers,
        train: bool,
        shared: bool = False,
    ) -> Tensor:
        def one(params: Tensors, held: Tensors, x: Tensor) -> Any:
            layers.watch(params)
            named = {**params, **held}
            placed = {at: named[name] for at, name in self._places.items()}
            return functional_call(self.model, placed, (x,), tie_weights=False)

        was_training = self.model.training
        self.model.train(train)
        try:
            with layers, self._autocast(), quiet():
                together = vmap(one, (0, 0, None if shared else 0), randomness="different")
                outputs: Tensor = together(params, held, x)
        finally:
            self.model.train(was_training)
        return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs

    def _autocast(self) -> Any:
        if self.precision != "bf16":
            return nullcontext()
        # No cache: a cast made inside one step must not be found by the next.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    @contextmanager
    def backend(self) -> Iterator[None]:
        """TF32 as chosen, and as it was when done."""
        if self.device.type != "cuda":
            yield
            return
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = self.precision != "fp32"
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32 = before


def _filled(params: Tensors, grads: Sequence[Tensor | None]) -> Tensors:
    """Zeros for parameters that took no part."""
    return {
        name: torch.zeros_like(p) if g is None else g.to(p.dtype)
        for (name, p), g in zip(params.items(), grads, strict=True)
    }
