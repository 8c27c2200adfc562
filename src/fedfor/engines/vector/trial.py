"""A few samples are tried, to learn what a model needs, or why it cannot be stacked."""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...algorithms.sharing import buffers, trainable
from ...errors import ConfigError, in_short
from ...randomness import torch_seeded
from ...tensors import Tensors
from ..forward import forward
from .model import StackedModel
from .noise import Noise, Orders, Recorded, Site
from .squares import CannotSquareError


def learn(stack: StackedModel, x: Tensor, y: Tensor) -> None:
    """Find out where the model drops, whether it draws and whether it bears padding.

    One sentence says what stands in the way of a model that cannot be stacked.
    """
    noise, before = Recorded(), _random_state(stack)
    try:
        _require_one_type(stack)
        orders = _require_kept_buffers(stack, x)
        _step(stack, x, y, None, noise)
        stack.draws = not torch.equal(before, _random_state(stack))
        stack.sites = _in_order(noise.sites, orders)
        stack.loss.learn(forward(stack.model, x), y)
        _require_plain_dropout(stack, x, y)
        if len(x) > 2:
            stack.pads = stack.loss.mean_of_samples and not stack.draws and _pads(stack, x, y)
    except Exception as error:  # it is the user's model that runs here
        name = type(stack.model).__name__
        raise ConfigError(
            f"the vector engine cannot train copies of {name} together ({in_short(error)}); "
            "use engine = 'serial'"
        ) from error


def _step(
    stack: StackedModel,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    noise: Noise,
    train: bool = True,
) -> tuple[Tensors, Tensors, Tensor]:
    """Of two clients with these samples, from the model as it is."""
    rows, held = _two_clients(stack)
    x, y = torch.stack([x, x]), torch.stack([y, y])
    mask = None if weight is None else torch.stack([weight, weight])
    return stack.gradients(rows, held, x, y, mask, noise, train=train)


def _two_clients(stack: StackedModel) -> tuple[Tensor, Tensors]:
    """Weights and buffers of two that have the model as it is."""
    row = stack.layout.row(dict(stack.model.named_parameters()), stack.like).detach()
    held = {n: torch.stack([b, b]) for n, b in buffers(stack.model).items()}
    return torch.stack([row, row]), held


def _pads(stack: StackedModel, x: Tensor, y: Tensor) -> bool:
    """Whether samples without weight leave the others' gradients and statistics alone.

    Asked of a copy in float64, where rounding does not hide a small change.
    """
    model, x = _with_noise(stack, x)
    try:
        return _same_padded(_in_float64(stack, model), _double(x), y, 1e-6)
    except RuntimeError:  # something in it is float32 whatever the weights are
        own = StackedModel(model, stack.loss.loss, stack.device, stack.precision)
        return _same_padded(own, x, y, 0.1 if stack.precision == "bf16" else 1e-3)


def _with_noise(stack: StackedModel, x: Tensor) -> tuple[nn.Module, Tensor]:
    """Model and samples with some noise: layers may start as zeros, samples may be all alike."""
    draw = torch.Generator().manual_seed(0)

    def noisy(tensor: Tensor, share: float) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        drawn = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
        return tensor + share * drawn.to(tensor)

    model, x = copy.deepcopy(stack.model), noisy(x, 1.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(noisy(parameter, 0.1))
    return model, x


def _in_float64(stack: StackedModel, model: nn.Module) -> StackedModel:
    return StackedModel(copy.deepcopy(model).double(), stack.loss.loss, stack.device)


def squares_agree(stack: StackedModel, x: Tensor, y: Tensor) -> bool:
    """Whether whole batches give the squares that single samples give.

    Asked of a copy in float64, of batches of two sizes, so that no axis of a fixed size passes for
    that of the samples, and with a sample that does not count.
    """
    model, x = _with_noise(stack, x)
    try:
        exact, x = _in_float64(stack, model), _double(x)
        exact.loss.mean_of_samples = True
        return all(_same_squares(exact, x[:size], y[:size]) for size in (len(x), len(x) - 1))
    except (CannotSquareError, RuntimeError):  # or something in it is float32 in any case
        return False


def _same_squares(stack: StackedModel, x: Tensor, y: Tensor) -> bool:
    rows, held = _two_clients(stack)
    xs, ys = torch.stack([x, x]), torch.stack([y, y])
    counted = (torch.arange(len(x), device=x.device) < len(x) - 1).to(rows.dtype).expand(2, -1)
    found = stack.squared_gradients(rows, held, xs, ys, counted)
    left = found
    for i in range(len(x) - 1):
        sample = xs[:, i : i + 1], ys[:, i : i + 1]
        alone, _, _ = stack.gradients(rows, held, *sample, None, Recorded(), train=False)
        left = {name: t - alone[name].square() for name, t in left.items()}
    return all(_near(t, t - left[name], 1e-6, 1e-12) for name, t in found.items())


def _same_padded(stack: StackedModel, x: Tensor, y: Tensor, rounding: float) -> bool:
    """Each sample in turn is the one without weight."""
    stack.loss.mean_of_samples = True
    return all(_same_without(stack, place, x, y, rounding) for place in range(len(x)))


def _same_without(stack: StackedModel, place: int, x: Tensor, y: Tensor, rounding: float) -> bool:
    weight = torch.ones(len(x), dtype=stack.dtype, device=stack.device)
    weight[place] = 0
    left = weight > 0
    padded = _step(stack, x, y, weight, Recorded())
    alone = _step(stack, x[left], y[left], None, Recorded())
    return all(
        torch.equal(t, other[n])
        or (t.is_floating_point() and _near(t, other[n], rounding, rounding / 1000))
        for mine, other in zip(padded[:2], alone[:2], strict=True)
        for n, t in mine.items()
    )


def _near(t: Tensor, other: Tensor, relative: float, absolute: float) -> bool:
    return bool((t - other).norm() <= relative * other.norm() + absolute)


def _double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


def _require_plain_dropout(stack: StackedModel, x: Tensor, y: Tensor) -> None:
    tested, fewer = Recorded(), Recorded()
    _step(stack, x, y, None, tested, train=False)
    if tested.sites:
        raise ValueError("dropout that is on in evaluation, too")
    if stack.sites and len(x) > 2:
        _step(stack, x[:-1], y[:-1], None, fewer)
        if [(s.p, s.shape) for s in fewer.sites] != [(s.p, s.shape) for s in stack.sites]:
            raise ValueError("dropout on a tensor whose shape depends on the size of the batch")


def _require_one_type(stack: StackedModel) -> None:
    types = {p.dtype for p in trainable(stack.model).values()}
    if len(types) > 1:
        raise ValueError("parameters of different types: " + ", ".join(map(str, types)))


def _require_kept_buffers(stack: StackedModel, x: Tensor) -> list[tuple[int, ...] | None]:
    """A buffer that the forward puts another tensor in the place of would stay as it was.

    Gives back in which order of axes dropout draws when a client is alone.
    """
    model, orders = copy.deepcopy(stack.model).train(), Orders()
    before = {n: id(b) for n, b in model.named_buffers()}
    with torch.no_grad(), torch_seeded(0, "trial", device=stack.device), orders:
        model(x)
    if before != {n: id(b) for n, b in model.named_buffers()}:
        raise ValueError("a buffer that the forward replaces instead of changing it in place")
    return orders.found


def _random_state(stack: StackedModel) -> Tensor:
    if stack.device.type == "cuda":
        return torch.cuda.get_rng_state(stack.device)
    return torch.get_rng_state()


def _in_order(sites: list[Site], orders: list[tuple[int, ...] | None]) -> list[Site]:
    if len(sites) != len(orders):
        raise ValueError("dropout that is not called alike each time")
    return [replace(site, order=order) for site, order in zip(sites, orders, strict=True)]
