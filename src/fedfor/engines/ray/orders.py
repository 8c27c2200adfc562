"""What the driver asks of a worker, and what it is told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from ...algorithms import Algorithm
from ...data import Population
from ...errors import FedforError
from ...protocol import Message
from ...tensors import Extras, Tensors
from ..engine import Marks, Seat
from ..fisher import Loss
from ..stacking import Stacking
from ..training import Training

Within = Literal["serial", "vector"]

Place = tuple[int, int]
"""The numbers of a run and of its data, by which a worker knows what it has."""

DATA = "data"
"""The name of what runs share in a federation's parcel."""


@dataclass(frozen=True)
class Federation:
    """All that does not change in a run: a worker gets it once."""

    population: Population
    model: nn.Module
    algorithm: Algorithm
    training: Training
    seed: int
    loss: Loss
    within: Within
    """What a worker trains its clients with."""
    stacking: Stacking
    device: str
    threads: int
    states: str | None = None
    """The folder where clients' state lies, if they have any and it is on disk."""


@dataclass(frozen=True)
class Round:
    """What goes down to the clients beside the model, and what their replies are measured by."""

    round: int
    extras: Extras
    difference: str | None
    came_of: int | None
    last_move: Tensors | None

    def message(self, params: Tensors, buffers: Tensors) -> Message:
        return Message(
            self.round, params, buffers, self.extras, self.difference, came_of=self.came_of
        )


@dataclass(frozen=True)
class Slice:
    """Some leaves of a round's sum: one client each, or a block of clients that train together."""

    number: int
    round: int
    first: int
    leaves: Sequence[Sequence[int]]
    """The clients of each leaf, from the first on."""
    kept_in: Sequence[int] | None = None
    """For each client the round whose state it goes on from, 0 for none, where it is on disk."""

    @property
    def clients(self) -> list[int]:
        return [client for leaf in self.leaves for client in leaf]


@dataclass(frozen=True)
class Problem:
    """Why a leaf could not be trained."""

    leaf: int
    error: FedforError


@dataclass
class Report:
    """What a worker says of a slice beside the sums."""

    seconds: list[float] = field(default_factory=list)
    """For each leaf."""
    memory: int = 0
    """Bytes that the process holds in memory."""
    kept: list[tuple[int, int]] = field(default_factory=list)
    """Clients and how many bytes they keep, where the state was written to disk."""
    problem: Problem | None = None
    halvings: int = 0
    """How often it halved the clients that it trains together, as memory ran out."""
    lanes: int | None = None
    """The most that it trains together now, if they are bounded."""
    stopped: bool = False
    """Whether it was told that the slice is no longer wanted."""


@dataclass(frozen=True)
class Paper:
    """A part of an exam: some samples of a test."""

    seat: Seat
    first: int
    last: int
    kept_in: int = 0


@dataclass
class Graded:
    marks: list[Marks] = field(default_factory=list)
    problem: Problem | None = None


def worker_device(name: str) -> torch.device:
    """Ray shows a worker the GPU that is its own, and no other."""
    return torch.device("cuda" if name.startswith("cuda") else name)
