from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ..data import Population, Samples
from ..data.labelled import Rows
from ..protocol import Kept, Message, Partial, Reply, StackedReply
from ..protocol.tree import Node
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


class Roster:
    """The clients of a round. Their jobs are made one by one, where they are done."""

    def __init__(
        self,
        round: int,  # noqa: A002
        clients: Sequence[int],
        population: Population,
        fetch: Callable[[int], Kept | None] | None,
        last_move: Tensors | None = None,
    ) -> None:
        self.round, self.clients = round, clients
        self.population, self._fetch = population, fetch
        self.last_move = last_move
        """What the agreement of the replies is told by, for those who add them up elsewhere."""

    def __len__(self) -> int:
        return len(self.clients)

    def __iter__(self) -> Iterator[Job]:
        return map(self.job, self.clients)

    def job(self, client: int) -> Job:
        return Job(client, self.population.samples(client, self.round), fetch=self._fetch)


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
class Summed:
    """What came of all clients of a round, added up by those who have trained them."""

    nodes: list[Node[Partial]]
    """To be read only: they may lie in memory that is shared."""


@dataclass(frozen=True)
class Seat:
    """Where an exam's samples and layers are found by who has the population, but not the exam."""

    round: int
    test: int
    """Its place among the tests of the round."""
    client: int | None = None
    """Whose own layers are taken along."""


@dataclass(frozen=True)
class Exam:
    """A global model to be tested, with the layers that a client kept as its own, if any."""

    model: Tensors
    samples: Samples
    kept: Kept | None = None
    fetch: Callable[[], Kept | None] | None = None
    """Where to get them when they are needed, in place of `kept`."""
    seat: Seat | None = None

    def state(self) -> Kept | None:
        return self.kept if self.fetch is None else self.fetch()


@dataclass(frozen=True)
class Marks:
    """How many samples of each class were right, and the sum of the losses."""

    right: Rows
    loss: float

    def __add__(self, other: "Marks") -> "Marks":
        return Marks(self.right + other.right, self.loss + other.loss)


@dataclass(frozen=True)
class Score:
    accuracy: float
    loss: float
    by_class: tuple[float | None, ...] = ()
    """The accuracy on the samples of each class, None where there are none. A sample's class is
    its own, whatever label the class has now."""


def score(samples: Samples, marks: Marks) -> Score:
    there = np.bincount(samples.own_classes(), minlength=samples.data.classes)
    pairs = zip(marks.right.tolist(), there.tolist(), strict=True)
    by_class = tuple(good / count if count else None for good, count in pairs)
    return Score(int(marks.right.sum()) / len(samples), marks.loss / len(samples), by_class)


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


class InProcess:
    """What engines have in common that train in the process that asks them."""

    def of_round(self) -> dict[str, object]:
        return {}

    def close(self) -> None:
        pass


class Engine(Protocol):
    """Trains the clients of a round and tests models. All engines give the same numbers."""

    name: ClassVar[str]

    @property
    def about(self) -> dict[str, object]:
        """What it has chosen by itself, for the record."""
        ...

    @property
    def steps_in_rows(self) -> bool:
        """Whether its replies are rows, so that a server does best to step all of a row at once."""
        ...

    def of_round(self) -> dict[str, object]:
        """What the record of the last round says of it."""
        ...

    def close(self) -> None:
        """Give back whatever outlasts a round."""
        ...

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[Result | StackedResult | Summed]:
        """The results of all jobs, each as soon as it is there.

        Replies may lie in memory that the engine trains in: use one before asking for the next.
        An engine whose device works by itself may meanwhile ask for the jobs of the next round;
        one that trains elsewhere takes a `Roster` and gives what came of all.
        """
        ...

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]: ...


def single_sample(client: int) -> str:
    return (
        f"client {client} has a single sample, and batch norm cannot train on one; "
        "give clients more data or use a model without batch norm"
    )
