"""Many copies of a model, each with its own weights, in one forward and one backward."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ...algorithms.sharing import buffers, trainable
from ...errors import ConfigError, in_short
from ...randomness import torch_seeded
from ...tensors import Tensors
from ..fisher import Loss
from ..forward import forward, places
from ..stacking import Precision
from .layers import StackedLayers
from .layout import Layout
from .noise import Noise, Orders, Recorded, Site


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
        params = {n: p.detach().requires_grad_() for n, p in self.layout.split(weights).items()}
        held = {name: b.clone() for name, b in held.items()}
        with torch.enable_grad():
            outputs = self._forward(params, held, x, weight, noise, smallest, train)
            losses = self.loss(outputs, y, weight)
            grads = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True)
        if train:
            self.unused = tuple(n for n, g in zip(params, grads, strict=True) if g is None)
        filled = {
            name: torch.zeros_like(p) if g is None else g.to(p.dtype)
            for (name, p), g in zip(params.items(), grads, strict=True)
        }
        return filled, held, losses.detach()

    def outputs(self, weights: Tensor, held: Tensors, x: Tensor, shared: bool) -> Tensor:
        """In evaluation. `shared`: all models see the same samples, x has no client axis."""
        with torch.no_grad():
            params = self.layout.split(weights)
            return self._forward(params, held, x, None, Recorded(), 2, False, shared)

    def _forward(
        self,
        params: Tensors,
        held: Tensors,
        x: Tensor,
        weight: Tensor | None,
        noise: Noise,
        smallest: int,
        train: bool,
        shared: bool = False,
    ) -> Tensor:
        def one(params: Tensors, held: Tensors, x: Tensor) -> Any:
            named = {**params, **held}
            placed = {at: named[name] for at, name in self._places.items()}
            return functional_call(self.model, placed, (x,), tie_weights=False)

        compute = torch.bfloat16 if self.precision == "bf16" else None
        batch = 0 if shared else x.shape[1]
        layers = StackedLayers(noise, batch, weight, smallest, compute, self.precision != "fp32")
        was_training = self.model.training
        self.model.train(train)
        try:
            with layers, self._autocast(), _quiet():
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

    def check(self, x: Tensor, y: Tensor) -> None:
        """One forward and backward with two clients, to learn what the model needs.

        Says in one sentence what stands in the way of a model that cannot be stacked.
        """
        name = type(self.model).__name__
        noise = Recorded()
        before = self._random_state()
        try:
            self._require_one_type()
            orders = self._require_kept_buffers(x)
            self._trial(x, y, None, noise)
            self.draws = not torch.equal(before, self._random_state())
            self.sites = _in_order(noise.sites, orders)
            self.loss.learn(forward(self.model, x), y)
            self._require_plain_dropout(x, y)
            if len(x) > 2:
                self.pads = self.loss.mean_of_samples and not self.draws and self._bears(x, y)
        except Exception as error:  # it is the user's model that runs here
            reason = in_short(error)
            raise ConfigError(
                f"the vector engine cannot train copies of {name} together ({reason}); "
                "use engine = 'serial'"
            ) from error

    def _trial(
        self, x: Tensor, y: Tensor, weight: Tensor | None, noise: Noise, train: bool = True
    ) -> tuple[Tensors, Tensors, Tensor]:
        """A step of two clients with these samples, from the model as it is."""
        row = self.layout.row(dict(self.model.named_parameters()), self.like).detach()
        held = {n: torch.stack([b, b]) for n, b in buffers(self.model).items()}
        x, y = torch.stack([x, x]), torch.stack([y, y])
        mask = None if weight is None else torch.stack([weight, weight])
        return self.gradients(torch.stack([row, row]), held, x, y, mask, noise, train=train)

    def _bears(self, x: Tensor, y: Tensor) -> bool:
        """Whether samples without weight leave the others' gradients and statistics alone.

        Asked of a copy in float64, where rounding does not hide a small change.
        """
        draw = torch.Generator().manual_seed(0)

        def noisy(tensor: Tensor, share: float) -> Tensor:
            drawn = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
            return tensor + share * drawn.to(tensor)

        model = copy.deepcopy(self.model)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.copy_(noisy(parameter, 0.1))  # layers may start as zeros
        x = noisy(x, 1.0) if x.is_floating_point() else x  # and the first samples be all alike
        own = StackedModel(model, self.loss.loss, self.device, self.precision)
        exact = StackedModel(copy.deepcopy(model).double(), self.loss.loss, self.device)
        own.loss.mean_of_samples = exact.loss.mean_of_samples = True
        try:
            return exact._same_padded(x.double() if x.is_floating_point() else x, y, 1e-6)
        except RuntimeError:  # something in it is float32 whatever the weights are
            return own._same_padded(x, y, 0.1 if self.precision == "bf16" else 1e-3)

    def _same_padded(self, x: Tensor, y: Tensor, rounding: float) -> bool:
        """Each sample in turn is the one without weight."""
        return all(self._same_without(place, x, y, rounding) for place in range(len(x)))

    def _same_without(self, place: int, x: Tensor, y: Tensor, rounding: float) -> bool:
        weight = torch.ones(len(x), dtype=self.dtype, device=self.device)
        weight[place] = 0
        left = weight > 0
        padded = self._trial(x, y, weight, Recorded())
        alone = self._trial(x[left], y[left], None, Recorded())
        return all(
            torch.equal(t, other[n])
            or (
                t.is_floating_point()
                and bool((t - other[n]).norm() <= rounding * other[n].norm() + rounding / 1000)
            )
            for mine, other in zip(padded[:2], alone[:2], strict=True)
            for n, t in mine.items()
        )

    def _require_plain_dropout(self, x: Tensor, y: Tensor) -> None:
        tested, fewer = Recorded(), Recorded()
        self._trial(x, y, None, tested, train=False)
        if tested.sites:
            raise ValueError("dropout that is on in evaluation, too")
        if self.sites and len(x) > 2:
            self._trial(x[:-1], y[:-1], None, fewer)
            if [(s.p, s.shape) for s in fewer.sites] != [(s.p, s.shape) for s in self.sites]:
                raise ValueError("dropout on a tensor whose shape depends on the size of the batch")

    def _require_one_type(self) -> None:
        types = {p.dtype for p in trainable(self.model).values()}
        if len(types) > 1:
            raise ValueError("parameters of different types: " + ", ".join(map(str, types)))

    def _require_kept_buffers(self, x: Tensor) -> list[tuple[int, ...] | None]:
        """A buffer that the forward puts another tensor in the place of would stay as it was.

        Gives back in which order of axes dropout draws when a client is alone.
        """
        trial = copy.deepcopy(self.model).train()
        before = {n: id(b) for n, b in trial.named_buffers()}
        orders = Orders()
        with torch.no_grad(), torch_seeded(0, "trial", device=self.device), orders:
            trial(x)
        if before != {n: id(b) for n, b in trial.named_buffers()}:
            raise ValueError("a buffer that the forward replaces instead of changing it in place")
        return orders.found

    def _random_state(self) -> Tensor:
        if self.device.type == "cuda":
            return torch.cuda.get_rng_state(self.device)
        return torch.get_rng_state()


def _in_order(sites: list[Site], orders: list[tuple[int, ...] | None]) -> list[Site]:
    if len(sites) != len(orders):
        raise ValueError("dropout that is not called alike each time")
    return [replace(site, order=order) for site, order in zip(sites, orders, strict=True)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is wrong with an operation that vmap does one by one; it is only slow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


class StackedLoss:
    """The mean loss of each client, over its samples alone."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.mean_of_samples = loss is F.cross_entropy

    def learn(self, outputs: Tensor, y: Tensor) -> None:
        """Whether the loss of a batch is the mean of its samples' losses.

        Asked of outputs drawn at random, since those of a new model can be all alike, near to zero
        and far from it, and of all classes, since a loss may treat some unlike others.
        """
        if self.mean_of_samples:
            return
        classes = outputs.ndim == 2 and y.ndim == 1 and not y.is_floating_point()
        if classes:
            y = torch.arange(2 * outputs.shape[1], device=y.device) % outputs.shape[1]
        draw = torch.Generator().manual_seed(0)
        drawn = torch.randn(len(y), *outputs.shape[1:], generator=draw).to(outputs)
        tried = [scale * drawn for scale in (0.01, 1.0, 30.0)]
        if classes:  # and outputs that are sure of what is right
            tried.append(drawn + 10 * F.one_hot(y, outputs.shape[1]).to(outputs))
        try:
            self.mean_of_samples = all(self._is_mean(o, y) for o in tried)
        except (RuntimeError, ValueError):  # it may want probabilities
            self.mean_of_samples = all(self._is_mean(o.sigmoid(), y) for o in tried[:2])

    def _is_mean(self, outputs: Tensor, y: Tensor) -> bool:
        each = [self.loss(o[None], t[None]) for o, t in zip(outputs, y, strict=True)]
        together = self.loss(outputs, y)
        return bool(torch.isclose(torch.stack(each).mean(), together, rtol=1e-5, atol=0))

    def __call__(self, outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            if self.loss is F.cross_entropy and outputs.ndim == 3:
                return self._cross_entropy(outputs, y).mean(1)
            with _quiet():
                each: Tensor = vmap(self.loss)(outputs, y)
            return each
        if not self.mean_of_samples:
            raise ConfigError(
                "the loss of a batch is not the mean over its samples, so clients with different "
                "numbers of them cannot be trained together; use engine = 'serial'"
            )
        if self.loss is F.cross_entropy and outputs.ndim == 3:
            losses = self._cross_entropy(outputs, y)
        else:
            with _quiet():
                losses = vmap(vmap(lambda o, t: self.loss(o[None], t[None])))(outputs, y)
        losses = torch.where(weight > 0, losses, torch.zeros_like(losses))
        return losses.sum(1) / weight.sum(1).clamp(min=1)

    @staticmethod
    def _cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none")
        return losses.view(y.shape)
