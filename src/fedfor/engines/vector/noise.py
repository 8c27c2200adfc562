"""The noise of dropout, each client's its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

FEATURE_AXES: dict[Callable[..., Any], int] = {F.dropout1d: 3, F.dropout2d: 4, F.dropout3d: 5}
"""Dropout of whole channels, and of how many axes its input is."""


class Noise(Protocol):
    def draw(self, x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
        """For stacked activations: 1/(1-p) or, with probability p, 0; of `shape` for a sample."""
        ...


@dataclass(frozen=True)
class Site:
    """A place in the model that drops, in the order of the forward."""

    p: float
    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...] | None = None
    """The axes as they lie in memory when a client is alone: torch draws in that order."""

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """For so many samples, as torch's own dropout does."""
        shape = (count, *self.shape)
        order = tuple(range(len(shape))) if self.order is None else self.order
        drawn = torch.empty([shape[axis] for axis in order], dtype=self.dtype)
        if self.p < 1:
            drawn.bernoulli_(1 - self.p, generator=generator).div_(1 - self.p)
        else:
            drawn.zero_()
        return drawn.permute([order.index(axis) for axis in range(len(shape))])


class Orders(TorchFunctionMode):
    """Notes for each dropout of a plain forward in which order of axes it draws."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, ...] | None] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func is F.dropout or func in FEATURE_AXES:
            x, p, training = _asked(*args, **named)
            if training and p > 0 and x.ndim == FEATURE_AXES.get(func, x.ndim):
                strides = x.stride()
                by_memory = sorted(range(x.ndim), key=lambda axis: -strides[axis])
                self.found.append(tuple(by_memory) if func is F.dropout else None)
        return func(*args, **named)


def _asked(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> tuple[Tensor, float, bool]:
    return input, p, training


@dataclass
class Recorded:
    """Notes the sites of a forward, and drops nothing."""

    sites: list[Site] = field(default_factory=list)

    def draw(self, x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
        self.sites.append(Site(p, shape, x.dtype))
        return torch.ones((), dtype=x.dtype, device=x.device)


@dataclass
class Given:
    """Noise that was drawn before, one tensor for each site."""

    tensors: Sequence[Tensor]
    used: int = 0

    def draw(self, x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
        self.used += 1
        return self.tensors[self.used - 1]


def as_alone(
    sites: Sequence[Site], generators: Sequence[torch.Generator], samples: Sequence[int], batch: int
) -> list[Tensor]:
    """What each client would draw if it were trained alone, with zeros where it has no sample."""
    noise = [torch.zeros(len(samples), batch, *s.shape, dtype=s.dtype) for s in sites]
    for client, (generator, count) in enumerate(zip(generators, samples, strict=True)):
        for site, tensor in zip(sites, noise, strict=True):
            if count == 0:
                continue
            tensor[client, :count] = site.draw(count, generator)
    return noise


@dataclass
class Hashed:
    """Noise as a function of a client's key, the step, the site and the place, on the device.

    No generator: it does not matter which clients are trained together, and a captured CUDA graph
    draws anew at each replay because the step is a tensor.
    """

    keys: Tensor
    """A whole number of 32 bits for each client."""
    step: Tensor
    sites: int = 0

    def draw(self, x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
        self.sites += 1
        clients, batch = x.shape[:2]
        places = 1
        for n in shape:
            places *= n
        at = torch.arange(batch * places, device=x.device, dtype=torch.int32)
        site = (self.sites * 0x3C6EF35F) % 2**31
        seed = _mixed(self.keys + self.step.to(torch.int32) * -0x61C88647 + site)
        bits = _mixed(_mixed(seed[:, None] ^ at) + seed[:, None])
        keep = (bits & 0xFFFFFF) >= int(p * 2**24)
        scale = 0.0 if p == 1 else 1 / (1 - p)
        return (keep * scale).to(x.dtype).view(clients, batch, *shape)


def _mixed(x: Tensor) -> Tensor:
    """A finaliser of 32 bits (lowbias32). Products wrap; shifts bring in no sign."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x7FEB352D
    x = (x ^ ((x >> 15) & 0x1FFFF)) * -0x7B935975
    return x ^ ((x >> 16) & 0xFFFF)
