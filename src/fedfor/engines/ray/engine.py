"""Cohorts over a Ray cluster."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...algorithms.sharing import stays_local
from ...errors import FedforError
from ...protocol import Message
from ...protocol.local import own_layers
from ...tensors import Tensors
from ..engine import Ahead, Exam, Job, Roster, Score, Summed
from .cluster import imported
from .costs import Costs, Ledger, Piece, Took
from .crew import Member
from .dispatch import Answer
from .keeping import Keeping, States, StatesOnDisk
from .orders import Federation, Paper, Report, Round, Slice
from .parcel import pack

if TYPE_CHECKING:
    from .pool import Home, Pool

log = logging.getLogger("fedfor")


class RayEngine:
    """Each worker holds one model and trains slices of the cohort; sums are added up in a tree.

    The numbers are those of the engine that trains `within` a worker, whatever the slices. Workers
    are a pool's, which several runs may share.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, pool: "Pool", federation: Federation, *, block: int, states: States) -> None:
        self.pool, self.block = pool, block
        self.steps_in_rows = federation.within == "vector"
        model, sharing = federation.model, federation.algorithm.sharing
        self.initial_own = own_layers(model, stays_local(model, sharing))
        self.states = None if federation.algorithm.stateless else states
        if isinstance(self.states, StatesOnDisk):
            federation = replace(federation, states=str(self.states.files.folder.absolute()))
        self.federation = federation
        self.ledger = Ledger(pool.speeds)
        self.number = pool.join(self)
        self._model: tuple[Tensors, Any] | None = None
        self._told: dict[str, object] = {}

    @property
    def about(self) -> dict[str, object]:
        members = self.pool.crew.members.values()
        nodes = {member.about.node for member in members if member.about is not None}
        within: dict[str, object] = {"within": self.federation.within}
        if self.steps_in_rows:
            within["together"] = self.block
        return {"workers": len(members), "nodes": len(nodes), **within}

    def of_round(self) -> dict[str, object]:
        return self._told

    def close(self) -> None:
        self._model = None
        self.pool.leave(self.number)

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[Summed]:
        job = self.job(message, jobs)
        self.pool.train([job])
        yield job.result()
        job.commit()

    def job(self, message: Message, jobs: Iterable[Job]) -> "RoundJob":
        """What this run wants trained, for a pool that trains several runs together."""
        if not isinstance(jobs, Roster):
            raise TypeError("the ray engine makes jobs where they are done: give it a Roster")
        self.pool.start()
        self.home()  # a run that cannot be sent to workers is told by itself, not amid others
        return RoundJob(self, message, jobs)

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]:
        return self.pool.evaluate([(self, exams)])[0]

    def tell(self, told: dict[str, object]) -> None:
        self._told = told

    # What workers need

    def home(self) -> "Home":
        return self.pool.home(self)

    def put_model(self, params: Tensors, buffers: Tensors) -> Any:
        """In the object store once, for tests of it and for the next round."""
        tensors = {**params, **buffers}
        if self._model is None or not _same(self._model[0], tensors):
            self._model = tensors, imported().put(pack((params, buffers)))
        return self._model[1]

    def put_model_of(self, model: Tensors) -> Any:
        names = {name for name, _ in self.federation.model.named_parameters()}
        params = {name: t for name, t in model.items() if name in names}
        return self.put_model(params, {n: t for n, t in model.items() if n not in names})

    def with_states(self, member: Member, papers: list[Paper]) -> tuple[list[Paper], Any]:
        """With what a client kept as its own: where the files are, or the layers themselves."""
        owners = [paper.seat.client for paper in papers if paper.seat.client is not None]
        if not owners or self.states is None:
            return papers, None
        if on_disk := self.on_disk(member):
            known = [on_disk.latest(o) if (o := p.seat.client) is not None else 0 for p in papers]
            return [replace(p, kept_in=n) for p, n in zip(papers, known, strict=True)], None
        kept = {k: self.states.get(k) for k in owners}
        return papers, imported().put(pack({k: own for k, own in kept.items() if own}))

    def on_disk(self, member: Member) -> StatesOnDisk | None:
        sees = member.about is not None and member.about.sees
        return self.states if sees and isinstance(self.states, StatesOnDisk) else None


class RoundJob:
    """One round of a run: its slices, who has done them, and what is kept once it stands."""

    def __init__(self, engine: RayEngine, message: Message, roster: Roster) -> None:
        self.engine, self.message, self.roster = engine, message, roster
        self.began = time.perf_counter()
        self._lost_before = len(engine.pool.dispatch.lost)
        self._repeated_before = engine.pool.dispatch.repeated
        self._put: tuple[Any, Any] | None = None
        block, clients = engine.block, list(roster.clients)
        self.leaves = [clients[i : i + block] for i in range(0, len(clients), block)]
        sizes = [roster.population.examples(k, roster.round) for k in clients]
        self.sizes = dict(zip(clients, (float(n or 1) for n in sizes), strict=True))
        self.answers: dict[Piece, Answer[Report]] = {}
        self.summed: Summed | None = None
        self.error: FedforError | None = None
        self._halvings = 0
        self._numbers: dict[tuple[int, Piece], int] = {}
        self._keeping = Keeping(engine.states, roster.round)

    def result(self) -> Summed:
        if self.summed is None:
            assert self.error is not None
            raise self.error
        return self.summed

    def costs(self) -> Costs:
        """What each leaf should take."""
        expect, sizes = self.engine.ledger.expect, self.sizes
        return np.array([expect(leaf, [sizes[k] for k in leaf]).sum() for leaf in self.leaves])

    # Sending

    def send(self, member: Member, piece: Piece) -> Sequence[Any]:
        engine, ray = self.engine, imported()
        number = engine.pool.dispatch.next_number()
        self._numbers[member.number, piece] = number
        order = Slice(number, self.roster.round, piece.first, self.leaves[piece.first : piece.last])
        carried = None
        if (states := engine.states) is not None:
            if on_disk := engine.on_disk(member):
                order = replace(order, kept_in=[on_disk.latest(k) for k in order.clients])
            else:
                found = {k: states.get(k) for k in order.clients}
                carried = ray.put(pack({k: kept for k, kept in found.items() if kept}))
        model, around = self._sent()
        home = engine.home()
        train = member.actor.train.options(num_returns=3)
        references: Sequence[Any] = train.remote(
            order, home.place, home.parcel, home.data, model, around, carried
        )
        return references

    def _sent(self) -> tuple[Any, Any]:
        """The model and what else goes down, in the object store once a round."""
        if self._put is None:
            m = self.message
            model = self.engine.put_model(m.params, m.buffers)
            around = Round(m.round, m.extras, m.difference, m.came_of, self.roster.last_move)
            self._put = model, imported().put(pack(around))
        return self._put

    def stop(self, member: Member, piece: Piece) -> None:
        number = self._numbers[member.number, piece]
        member.actor.stop.remote(number)

    def words(self, piece: Piece) -> str:
        count = sum(map(len, self.leaves[piece.first : piece.last]))
        return f"{count} client{'s' if count > 1 else ''} of round {self.roster.round}"

    # When all is done

    def learn(self) -> None:
        """What each client took, and who ran out of memory."""
        self.engine.ledger.learn([self._took(p, answer) for p, answer in self.answers.items()])
        members = self.engine.pool.crew.members
        for answer in self.answers.values():
            if answer.worker in members and answer.report.problem is None:
                members[answer.worker].memory = answer.report.memory
            if answer.report.halvings:
                self._halvings += answer.report.halvings
                log.warning(
                    "worker %d ran out of memory: it trains %s clients at a time from now on",
                    answer.worker, answer.report.lanes,
                )  # fmt: skip

    def _took(self, piece: Piece, answer: Answer[Report]) -> Took:
        """Clients that are trained together share the time by their sizes."""
        clients, sizes, seconds = list[int](), list[float](), list[float]()
        leaves = self.leaves[piece.first : piece.last]
        for leaf, took in zip(leaves, answer.report.seconds, strict=False):
            of_leaf = [self.sizes[k] for k in leaf]
            clients += leaf
            sizes += of_leaf
            seconds += [took * size / sum(of_leaf) for size in of_leaf]
        return Took(answer.worker, clients, sizes, seconds)

    def collect(self) -> None:
        self._keeping.collect(self.answers)

    def commit(self) -> None:
        """The round stands: its sums have been used."""
        self.engine.tell(self._told())
        self._keeping.commit(self.answers)

    def _told(self) -> dict[str, object]:
        """How busy each worker was with this run, and what went wrong on the way."""
        seconds, dispatch = time.perf_counter() - self.began, self.engine.pool.dispatch
        nothing = {"busy": 0.0, "clients": 0, "memory": 0}
        found: dict[int, dict[str, Any]] = {
            number: nothing | {"memory": member.memory}
            for number, member in self.engine.pool.crew.members.items()
        }
        for piece, answer in self.answers.items():
            about = found.setdefault(answer.worker, dict(nothing))
            about["busy"] += sum(answer.report.seconds) / seconds
            about["clients"] += sum(map(len, self.leaves[piece.first : piece.last]))
            about["memory"] = max(about["memory"], answer.report.memory)
        workers = [
            {"worker": number, **about, "busy": round(about["busy"], 4)}
            for number, about in sorted(found.items())
        ]
        told: dict[str, object] = {"workers": workers}
        if lost := len(dispatch.lost) - self._lost_before:
            told["workers_lost"] = lost
        if repeated := dispatch.repeated - self._repeated_before:
            told["slices_repeated"] = repeated
        if self._halvings:
            told["stacks_halved"] = self._halvings
        return told


def _same(some: Tensors, others: Tensors) -> bool:
    return some.keys() == others.keys() and all(t is others[name] for name, t in some.items())
