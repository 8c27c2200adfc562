"""A process of the cluster that trains slices of cohorts, with one model that stays there."""

import copy
import gc
import os
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
import torch
from torch import Tensor

from ...data import DataSplit
from ...errors import ConfigError, FedforError
from ...importing import told
from ...memory import is_out_of_memory, resident_bytes
from ...protocol import Aggregation, Kept, Message, Partial
from ...protocol.aggregation import Layout
from ...protocol.states import StateFiles
from ...protocol.tree import folded
from ...tensors import Tensors, copies
from ..engine import Exam, Job
from ..intake import Intake
from ..serial import SerialEngine
from .orders import (
    DATA,
    Federation,
    Graded,
    Paper,
    Place,
    Problem,
    Report,
    Round,
    Slice,
    worker_device,
)
from .parcel import Parcel, pack, unpack

CONTROL = "control"
"""Methods that are answered while the worker trains."""

MOST_HOMES = 256
"""Runs whose models a worker holds: of more, those come again whose turn was longest ago."""


@dataclass(frozen=True)
class About:
    """What a worker says of itself once it is ready."""

    node: str
    """Its id in the cluster: several may share an address."""
    address: str
    pid: int
    sees: bool
    """Whether it sees the folder of clients' state."""
    memory: int
    """Bytes that the process holds in memory."""


class Worker:
    """Made where Ray puts it. Its methods are called one at a time, but for `stop`."""

    def __init__(self, paths: Sequence[str], lanes: int | None) -> None:
        # What is one's own is found here as it was there.
        sys.path[:] = dict.fromkeys([*paths, *sys.path])
        self._lanes = lanes
        self._homes: OrderedDict[int, Home] = OrderedDict()
        self._data: tuple[int, DataSplit] | None = None
        self._unwanted: set[int] = set()

    def ready(self, seen: str | None) -> About:
        sees = seen is not None and Path(seen).is_file()
        return About(_node(), _address(), os.getpid(), sees, resident_bytes())

    @ray.method(concurrency_group=CONTROL)
    def here(self) -> None:
        """Can be called as long as the process lives."""

    def train(
        self,
        order: Slice,
        place: Place,
        federation: Parcel,
        data: Parcel,
        model: Parcel,
        round_: Parcel,
        states: Parcel | None,
    ) -> tuple[Report, Parcel | None, Parcel | None]:
        """Train a slice. Gives a report, the sums, and what clients keep if it is not on disk."""
        report = Report()
        try:
            with _told("setting up the run"):
                home = self._home(place, federation, data)
        except FedforError as error:
            report.problem = Problem(order.first, error)
            return report, None, None
        states_here = _States(home.files, order, states)
        around: Round = unpack(round_)
        message = around.message(*home.received(order.round, model))
        algorithm, training = home.federation.algorithm, home.federation.training
        replies = Aggregation(algorithm, message, home.layout, home.on_device(around.last_move))
        intake = Intake(algorithm, training, replies, states_here.keep)
        trainer = getattr(home.engine, "trainer", None)
        halvings = getattr(trainer, "halvings", 0)
        for leaf, clients in enumerate(order.leaves, order.first):
            if order.number in self._unwanted:
                self._unwanted.discard(order.number)
                report.stopped = True
                return report, None, None
            began = time.perf_counter()
            try:
                with replies.as_leaf(leaf), _told(f"training client {clients[0]}"):
                    home.train(message, clients, states_here, intake)
            except FedforError as error:
                report.problem = Problem(leaf, error)
                return report, None, None
            report.seconds.append(time.perf_counter() - began)
        report.memory = resident_bytes()
        report.halvings = getattr(trainer, "halvings", 0) - halvings
        report.lanes = getattr(trainer, "most_lanes", None)
        report.kept = states_here.written
        return report, pack(_on_cpu(replies)), states_here.parcel()

    def fold(self, whole: bool, *parcels: Parcel) -> Parcel:
        """Add up the sums of several slices as far as they go together; all to one if these are
        the `whole` round."""
        nodes = [node for parcel in parcels for node in unpack(parcel)]
        own: set[int] = set()

        def add(left: Partial, right: Partial) -> Partial:
            if id(left) not in own:  # what came lies in shared memory, where nothing can be written
                left = left.copied()
                own.add(id(left))
            return left.plus(right)

        return pack(folded(add, nodes, whole))

    def grade(
        self,
        papers: Sequence[Paper],
        place: Place,
        federation: Parcel,
        data: Parcel,
        model: Parcel,
        states: Parcel | None,
    ) -> Graded:
        """Test the model on parts of tests."""
        graded = Graded()
        try:
            with _told("setting up the run"):
                home = self._home(place, federation, data)
        except FedforError as error:
            graded.problem = Problem(0, error)
            return graded
        kept = {} if states is None else unpack(states)
        params, buffers = home.received(papers[0].seat.round + 1, model)
        for number, paper in enumerate(papers):
            seat = paper.seat
            samples = home.federation.population.tests(seat.round)[seat.test].samples
            some = replace(samples, rows=samples.rows[paper.first : paper.last])
            own = kept.get(seat.client)
            try:
                with _told("testing the global model"):
                    if paper.kept_in and seat.client is not None and home.files is not None:
                        own = home.files.read(seat.client, paper.kept_in)
                    marks = home.engine.marks(Exam({**params, **buffers}, some, own))
            except FedforError as error:
                graded.problem = Problem(number, error)
                break
            graded.marks.append(marks)
        return graded

    @ray.method(concurrency_group=CONTROL)
    def stop(self, number: int) -> None:
        """The slice of this number is no longer wanted: another worker was faster."""
        self._unwanted.add(number)

    def _home(self, place: Place, parcel: Parcel, data: Parcel) -> "Home":
        """What is here of a run: made when its first slice comes."""
        number, of_data = place
        if (home := self._homes.get(number)) is None:
            if self._data is None or self._data[0] != of_data:
                self._data = of_data, unpack(data)
            federation: Federation = unpack(parcel, {DATA: self._data[1]})
            if self._lanes is not None:
                stacking = replace(federation.stacking, lanes=self._lanes)
                federation = replace(federation, stacking=stacking)
            trainers = (getattr(home.engine, "trainer", None) for home in self._homes.values())
            home = self._homes[number] = Home(federation, next(trainers, None))
        self._homes.move_to_end(number)
        while len(self._homes) > MOST_HOMES:
            self._homes.popitem(last=False)
        torch.set_num_threads(home.federation.threads)  # of this thread, which is not the first
        return home


class Home:
    """A run, as a worker has it: its model, which stays here, and its engine."""

    def __init__(self, federation: Federation, trainer: Any) -> None:
        # A model of its own: what came lies in shared memory, where nothing can be written.
        federation = replace(federation, model=copy.deepcopy(federation.model))
        self.federation = federation
        self.files = None if federation.states is None else StateFiles(Path(federation.states))
        self.engine = _engine(federation, trainer)
        in_rows = federation.within == "vector"
        self.layout = Layout(federation.algorithm, federation.model, in_rows)
        self._model: tuple[int, Tensors, Tensors] | None = None

    def train(
        self, message: Message, clients: Sequence[int], states: "_States", intake: Intake
    ) -> None:
        population = self.federation.population
        fetch = None if self.federation.algorithm.stateless else states.get
        jobs = [Job(k, population.samples(k, message.round), fetch=fetch) for k in clients]
        for result in self.engine.train(message, jobs):
            intake.take(result)

    def received(self, round_: int, parcel: Parcel) -> tuple[Tensors, Tensors]:
        """The model of a round, which stays here until the next one comes."""
        if self._model is None or self._model[0] != round_:
            self._model = None
            params, buffers = (self.on_device(copies(part)) for part in unpack(parcel))
            self._model = round_, params or {}, buffers or {}
        return self._model[1], self._model[2]

    def on_device(self, tensors: Tensors | None) -> Tensors | None:
        if tensors is None:
            return None
        device = worker_device(self.federation.device)
        return {name: t.to(device) for name, t in tensors.items()}


class _States:
    """Where a slice's clients have their state from, and where it goes."""

    def __init__(self, files: StateFiles | None, order: Slice, carried: Parcel | None) -> None:
        self._files = files if order.kept_in is not None else None
        self._kept_in = dict(zip(order.clients, order.kept_in or (), strict=False))
        self._carried: dict[int, Kept] = {} if carried is None else unpack(carried)
        self._new: dict[int, Kept] = {}
        self.written: list[tuple[int, int]] = []

    def get(self, client: int) -> Kept | None:
        if self._files is None:
            return self._carried.get(client)
        round_ = self._kept_in[client]
        return self._files.read(client, round_) if round_ else None

    def keep(self, client: int, kept: Kept) -> None:
        if self._files is None:
            extras = {e: {n: t.cpu() for n, t in ts.items()} for e, ts in kept.extras.items()}
            self._new[client] = Kept(kept.round, extras)
        else:
            self._files.write(client, kept)
            self.written.append((client, kept.nbytes))

    def parcel(self) -> Parcel | None:
        return pack(self._new) if self._new else None


def _engine(federation: Federation, trainer: Any) -> Any:
    model, device = federation.model, worker_device(federation.device)
    what = (model, federation.algorithm, federation.training, federation.seed, federation.loss)
    if federation.within == "serial":
        return SerialEngine(*what, device)
    from ..vector import VectorEngine

    engine = VectorEngine(*what, device, stacking=federation.stacking, trainer=trainer)
    train = federation.population.train
    engine.check(train.x[:4], train.y[:4])  # with the same samples on all workers
    return engine


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Whatever goes wrong in the model or the data of one's own becomes a sentence."""
    try:
        yield
    except FedforError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            gc.collect()
            raise ConfigError(
                f"{doing} takes more memory than {_address()} has; lower training.batch_size, or "
                "run fewer workers there"
            ) from error
        raise ConfigError(f"{doing} failed on {_address()}: {told(error)}") from error


def _on_cpu(replies: Aggregation) -> list[Any]:
    def moved(tensors: dict[str, Tensor]) -> Tensors:
        return {name: t.cpu() for name, t in tensors.items()}

    return [
        replace(
            node,
            value=replace(node.value, sums={key: moved(ts) for key, ts in node.value.sums.items()}),
        )
        for node in replies.nodes()
    ]


def _node() -> str:
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def _address() -> str:
    if not ray.is_initialized():
        return socket.gethostname()
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
