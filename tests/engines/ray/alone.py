"""A run whose slices a worker trains that is here, in this process, without a cluster."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from fedfor.algorithms import Algorithm, algorithm
from fedfor.data import Partition
from fedfor.engines import SerialEngine
from fedfor.engines.engine import Roster, Seat
from fedfor.engines.fisher import Loss
from fedfor.engines.intake import Intake
from fedfor.engines.ray.orders import DATA, Federation, Graded, Paper, Report, Round, Slice
from fedfor.engines.ray.parcel import Parcel, pack, unpack
from fedfor.engines.ray.worker import Worker
from fedfor.engines.stacking import DEFAULT
from fedfor.models import build_model
from fedfor.protocol import Aggregation, Kept, Partial, Server
from fedfor.protocol.tree import Node

from ..stacks import TRAINING, build, ragged

SIZES = (4, 18, 11, 25, 5, 12, 9, 14, 8, 10, 6)
CLIENTS = tuple(range(len(SIZES)))


class Driver:
    """What a driver does for one run, as far as a worker sees it."""

    def __init__(
        self,
        number: int = 1,
        name: str = "fedavg",
        *,
        model: nn.Module | None = None,
        population: Partition | None = None,
        loss: Loss = nn.functional.cross_entropy,
        states: Path | None = None,
        seed: int = 0,
    ) -> None:
        self.number, self.seed, self.loss = number, seed, loss
        self.model = build(lambda *shape: build_model("linear", *shape)) if model is None else model
        self.algorithm: Algorithm = algorithm(name)
        self.population = ragged(SIZES) if population is None else population
        self.server = Server(self.algorithm, self.model, len(CLIENTS))
        what = (self.algorithm, TRAINING, seed, loss, "serial", DEFAULT, "cpu", 1)
        folder = None if states is None else str(states)
        self.federation = Federation(self.population, self.model, *what, folder)
        self.split = self.population.split
        self.data = pack(self.split)
        self.parcel = pack(self.federation, {id(self.split): DATA})

    @property
    def place(self) -> tuple[int, int]:
        return self.number, id(self.split)

    def sent(self) -> tuple[Parcel, Parcel, Aggregation]:
        message, replies = self.server.message(), self.server.begin()
        around = Round(
            message.round, message.extras, message.difference, message.came_of, replies.last_move
        )
        return pack((message.params, message.buffers)), pack(around), replies

    def train(
        self,
        worker: Worker,
        leaves: Sequence[Sequence[int]],
        first: int = 0,
        *,
        number: int = 1,
        kept_in: Sequence[int] | None = None,
        carried: dict[int, Kept] | None = None,
    ) -> tuple[Report, Parcel | None, Parcel | None]:
        model, around, _ = self.sent()
        order = Slice(number, self.server.round + 1, first, leaves, kept_in)
        states = None if carried is None else pack(carried)
        return worker.train(order, self.place, self.parcel, self.data, model, around, states)

    def round(self, worker: Worker) -> None:
        """All clients, of whom each is a leaf."""
        report, sums, _ = self.train(worker, [[k] for k in CLIENTS])
        assert report.problem is None
        assert sums is not None
        self.finish(unpack(sums))

    def finish(self, nodes: Sequence[Node[Partial]]) -> None:
        replies = self.server.begin()
        replies.merge([replace(node, value=node.value.copied()) for node in nodes])
        self.server.finish(replies, 0.05)

    def serial_round(self) -> None:
        """The same in one process."""
        engine = SerialEngine(self.model, self.algorithm, TRAINING, self.seed, self.loss)
        message, replies = self.server.message(), self.server.begin()
        intake = Intake(self.algorithm, TRAINING, replies, lambda *_: None)
        for result in engine.train(message, Roster(message.round, CLIENTS, self.population, None)):
            intake.take(result)
        self.server.finish(replies, 0.05)

    def grade(self, worker: Worker) -> Graded:
        papers = [
            Paper(Seat(self.server.round, 0), 0, 20),
            Paper(Seat(self.server.round, 0), 20, 30),
        ]
        model = pack((self.server.params, self.server.buffers))
        return worker.grade(papers, self.place, self.parcel, self.data, model, None)
