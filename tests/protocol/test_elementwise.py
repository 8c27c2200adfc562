"""The trial finds what must be stepped one parameter after another."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from fedfor.algorithms import (
    PRESETS,
    Algorithm,
    ClientOpt,
    Cohort,
    Named,
    Scalar,
    ServerOpt,
    algorithm,
)
from fedfor.algorithms.presets import SERVER_OPTS
from fedfor.protocol.elementwise import steps_elementwise

pytestmark = pytest.mark.fast

Step = tuple[Tensor, dict[str, Tensor]]


@pytest.mark.parametrize("name", [*PRESETS, *SERVER_OPTS])
def test_our_own_methods_are_elementwise(name: str) -> None:
    assert steps_elementwise(algorithm(name))


@dataclass(frozen=True)
class ByLength(ServerOpt):
    """Moves each layer by its own length, as LARS and LAMB do."""

    name: ClassVar[str] = "by-length"

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        move = proposal - w
        return w + move * w.norm() / move.norm(), {}


@dataclass(frozen=True)
class Clipped(ServerOpt):
    name: ClassVar[str] = "clipped"
    most: float = 1.0

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        move = proposal - w
        return w + move * torch.clamp(self.most / move.norm(), max=1.0), {}


@dataclass(frozen=True)
class Matrices(ServerOpt):
    name: ClassVar[str] = "matrices"

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        return proposal - (0.1 * w if w.ndim > 1 else 0), {}


@dataclass(frozen=True)
class Noisy(ServerOpt):
    name: ClassVar[str] = "noisy"

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        return proposal + torch.randn_like(w), {}


@dataclass(frozen=True)
class Careless(ServerOpt):
    name: ClassVar[str] = "careless"

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        return w.copy_(proposal), {}


@dataclass(frozen=True)
class OneNumber(ServerOpt):
    """Keeps a number for each parameter."""

    name: ClassVar[str] = "one-number"
    keeps: ClassVar[tuple[str, ...]] = ("size",)

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        return proposal, {"size": w.abs().max()}


@dataclass(frozen=True)
class Counting(ServerOpt):
    name: ClassVar[str] = "counting"
    calls: list[int] = field(default_factory=list)

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        self.calls.append(1)
        return w + (proposal - w) / len(self.calls), {}


@dataclass(frozen=True)
class Broken(ServerOpt):
    name: ClassVar[str] = "broken"

    def step(self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar) -> Step:
        raise ZeroDivisionError


@dataclass(frozen=True)
class Proposing(ClientOpt):
    name: ClassVar[str] = "proposing"

    def propose(self, w0: Tensor, mean: Tensor, sums: Named, state: Named, cohort: Cohort) -> Step:
        return mean - mean.mean(), dict(state)


@dataclass(frozen=True)
class Afterwards(ClientOpt):
    name: ClassVar[str] = "afterwards"
    server_keeps: ClassVar[tuple[str, ...]] = ("direction",)

    def after(self, old: Tensor, new: Tensor, state: Named) -> dict[str, Tensor]:
        return {
            "direction": torch.nn.functional.normalize((old - new).flatten(), dim=0).view_as(old)
        }


BAD: list[Any] = [
    ByLength(),
    Clipped(),
    Clipped(1e-2),
    Clipped(100.0),
    Matrices(),
    Noisy(),
    Careless(),
    OneNumber(),
    Counting(),
    Broken(),
    Proposing(),
    Afterwards(),
]


@pytest.mark.parametrize("part", BAD, ids=lambda part: part.name)
def test_what_minds_its_neighbours_is_found(part: ClientOpt | ServerOpt) -> None:
    chosen = Algorithm(client=part) if isinstance(part, ClientOpt) else Algorithm(server=part)
    assert not steps_elementwise(chosen)


def test_a_trial_leaves_no_trace() -> None:
    before, counting = torch.get_rng_state(), Counting()
    for server in (Noisy(), counting):
        steps_elementwise(Algorithm(server=server))
    assert torch.equal(torch.get_rng_state(), before)
    assert not counting.calls
