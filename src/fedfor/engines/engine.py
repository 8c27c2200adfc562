from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..data import Samples
from ..protocol import Kept, Message, Reply
from ..tensors import Tensors


@dataclass(frozen=True)
class Job:
    """A client of the round, its data, and what it kept from its last one."""

    client: int
    samples: Samples
    kept: Kept | None = None


@dataclass(frozen=True)
class Result:
    client: int
    reply: Reply
    kept: Kept | None
    loss: float
    """The mean training loss over the round, without the penalty."""


@dataclass(frozen=True)
class Score:
    accuracy: float
    loss: float


class Engine(Protocol):
    """Trains the clients of a round and tests models. All engines give the same numbers."""

    def train(self, message: Message, jobs: Iterable[Job]) -> Iterator[Result]:
        """The results in the order of the jobs, each as soon as it is there."""
        ...

    def evaluate(self, model: Tensors, samples: Samples, kept: Kept | None = None) -> Score:
        """Test a global model, with the layers that a client kept as its own, if any."""
        ...
