from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ..data import Samples
from ..data.labelled import Rows
from ..protocol import Kept, Message, Reply, StackedReply
from ..tensors import Tensors


@dataclass(frozen=True)
class Job:
    """A client of the round, its data, and what it kept from its last one."""

    client: int
    samples: Samples
    kept: Kept | None = None
    fetch: Callable[[int], Kept | None] | None = None
    """Where to get it when the client is up, in place of `kept`: not all are held at once."""

    def state(self) -> Kept | None:
        return self.kept if self.fetch is None else self.fetch(self.client)


Ahead = Callable[[], Sequence[Job]]


@dataclass(frozen=True)
class Result:
    client: int
    reply: Reply
    kept: Kept | None
    loss: float
    """The mean training loss over the round, without the penalty."""

    def stacked(self) -> "StackedResult":
        kept = None if self.kept is None else (self.kept,)
        losses = torch.tensor([self.loss], dtype=torch.float64)
        return StackedResult((self.client,), self.reply.stacked(), kept, losses)


@dataclass(frozen=True)
class StackedResult:
    """The results of several clients of one run."""

    clients: tuple[int, ...]
    reply: StackedReply
    kept: tuple[Kept, ...] | None
    losses: Tensor
    """The mean training loss of each."""

    def stacked(self) -> "StackedResult":
        return self


@dataclass(frozen=True)
class Exam:
    """A global model to be tested, with the layers that a client kept as its own, if any."""

    model: Tensors
    samples: Samples
    kept: Kept | None = None


@dataclass(frozen=True)
class Score:
    accuracy: float
    loss: float
    by_class: tuple[float | None, ...] = ()
    """The accuracy on the samples of each class, None where there are none. A sample's class is
    its own, whatever label the class has now."""


def score(samples: Samples, right: Rows, loss: float) -> Score:
    """From how many samples of each class were right, and the mean loss."""
    there = np.bincount(samples.own_classes(), minlength=samples.data.classes)
    pairs = zip(right.tolist(), there.tolist(), strict=True)
    by_class = tuple(good / count if count else None for good, count in pairs)
    return Score(int(right.sum()) / len(samples), loss, by_class)


MOST_TESTED = 1024
MOST_NUMBERS = 2**26
"""In one forward of a test: samples, and numbers in them."""


def evenly(count: int, most: int) -> int:
    """The size of parts of like size, none above the most that there may be in one."""
    return -(-count // -(-count // max(1, most)))


def evaluation_batch(samples: Samples) -> int:
    """Test samples in one forward, with every engine: a model or a loss might depend on it."""
    most = min(MOST_TESTED, MOST_NUMBERS // max(1, samples.data.x[0].numel()))
    return evenly(len(samples), most)


class Engine(Protocol):
    """Trains the clients of a round and tests models. All engines give the same numbers."""

    name: ClassVar[str]

    @property
    def about(self) -> dict[str, object]:
        """What it has chosen by itself, for the record."""
        ...

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[Result | StackedResult]:
        """The results of all jobs, each as soon as it is there.

        Replies may lie in memory that the engine trains in: use one before asking for the next.
        An engine whose device works by itself may meanwhile ask for the jobs of the next round.
        """
        ...

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]: ...


def single_sample(client: int) -> str:
    return (
        f"client {client} has a single sample, and batch norm cannot train on one; "
        "give clients more data or use a model without batch norm"
    )
