"""Cohorts over a Ray cluster."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ...algorithms.sharing import stays_local
from ...errors import ConfigError
from ...protocol import Kept, Message
from ...protocol.local import own_layers
from ...protocol.states import StateFiles
from ...tensors import Tensors
from ..engine import Ahead, Exam, Job, Marks, Roster, Score, Summed, evaluation_batch, score
from .cluster import Cluster, imported
from .costs import WORTH_SPLITTING, Ledger, Piece, cut
from .crew import Crew, Member
from .dispatch import Answer, Dispatch
from .merge import LostSumsError, merged
from .orders import Federation, Paper, Problem, Report, Round, Slice
from .parcel import pack, unpack

log = logging.getLogger("fedfor")


class States(Protocol):
    """Where clients' state lies between rounds, as the driver sees it."""

    def get(self, client: int) -> Kept | None: ...

    def put(self, client: int, kept: Kept) -> None: ...


@runtime_checkable
class StatesOnDisk(States, Protocol):
    """Those that workers may read and write for themselves."""

    files: StateFiles

    def latest(self, client: int) -> int: ...

    def noted(self, client: int, round_: int, nbytes: int) -> None: ...


class RayEngine:
    """Each worker holds one model and trains slices of the cohort; sums are added up in a tree.

    The numbers are those of the engine that trains `within` a worker, whatever the slices.
    """

    name: ClassVar[str] = "ray"

    def __init__(
        self,
        federation: Federation,
        engine: str,
        *,
        workers: int | None,
        block: int,
        states: States | None,
    ) -> None:
        self.federation, self._block = federation, block
        self.steps_in_rows = federation.within == "vector"
        model, sharing = federation.model, federation.algorithm.sharing
        self.initial_own = own_layers(model, stays_local(model, sharing))
        self._states = None if federation.algorithm.stateless else states
        if isinstance(self._states, StatesOnDisk):
            folder = str(self._states.files.folder.absolute())
            self.federation = replace(federation, states=folder)
        gpus = federation.device.startswith("cuda")
        self._crew = Crew(Cluster(engine, workers), workers, gpus)
        self._dispatch = Dispatch(self._crew)
        self._ledger = Ledger()
        self._started = False
        self._slices = 0
        self._model: tuple[Tensors, Any] | None = None
        self._told: dict[str, object] = {}

    # What a run sees of it

    @property
    def about(self) -> dict[str, object]:
        nodes = {m.about.node for m in self._crew.members.values() if m.about is not None}
        within = {"within": self.federation.within}
        if self.steps_in_rows:
            within |= {"together": self._block}
        return {"workers": len(self._crew.members), "nodes": len(nodes), **within}

    def of_round(self) -> dict[str, object]:
        return self._told

    def close(self) -> None:
        if self._started:
            self._started = False
            self._model = None
            self._crew.close()

    # Training

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[Summed]:
        if not isinstance(jobs, Roster):
            raise TypeError("the ray engine makes jobs where they are done: give it a Roster")
        self._start()
        began, lost_before = time.perf_counter(), len(self._dispatch.lost)
        repeated_before = self._dispatch.repeated
        around = Round(message.round, message.extras, message.difference, jobs.last_move)
        job = _RoundJob(self, jobs, self._put_model(message.params, message.buffers), pack(around))
        summed = job.done()
        yield summed
        job.commit()
        self._told = {"workers": job.told(time.perf_counter() - began)}
        if lost := len(self._dispatch.lost) - lost_before:
            self._told["workers_lost"] = lost
        if repeated := self._dispatch.repeated - repeated_before:
            self._told["slices_repeated"] = repeated

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._crew.start(self.federation)

    def _put_model(self, params: Tensors, buffers: Tensors) -> Any:
        """In the object store once, for tests of it and for the next round."""
        tensors = {**params, **buffers}
        if self._model is None or not _same(self._model[0], tensors):
            self._model = tensors, imported().put(pack((params, buffers)))
        return self._model[1]

    # Testing

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]:
        if not exams:
            return []
        self._start()
        papers = [(place, paper) for place, exam in enumerate(exams) for paper in _papers(exam)]
        params = {n: t for n, t in exams[0].model.items() if n in self._parameters}
        buffers = {n: t for n, t in exams[0].model.items() if n not in params}
        model = self._put_model(params, buffers)
        costs = np.array([float(paper.last - paper.first) for _, paper in papers])
        workers = sorted(self._crew.members) or [0]
        pieces = cut(costs, workers, [1.0] * len(workers), split=False)

        def send(member: Member, piece: Piece) -> Sequence[Any]:
            mine = [paper for _, paper in papers[piece.first : piece.last]]
            mine, carried = self._with_states(member, mine)
            return [member.actor.grade.remote(mine, model, carried)]

        answers = self._dispatch.carry_out(
            pieces, send, lambda *_: None, lambda _: "a test of the model", in_seconds=False
        )
        _raise_first([(piece.first, answers[piece].report.problem) for piece in pieces])
        graded = sorted(answers.items(), key=lambda item: item[0].first)
        marks = [mark for _, answer in graded for mark in answer.report.marks]
        of_exam: list[Marks | None] = [None] * len(exams)
        for (place, _), mark in zip(papers, marks, strict=True):
            so_far = of_exam[place]
            of_exam[place] = mark if so_far is None else so_far + mark
        found = zip(exams, of_exam, strict=True)
        return [score(exam.samples, mark) for exam, mark in found if mark is not None]

    @property
    def _parameters(self) -> set[str]:
        return {name for name, _ in self.federation.model.named_parameters()}

    def _with_states(self, member: Member, papers: Sequence[Paper]) -> tuple[list[Paper], Any]:
        """With what a client kept as its own: where the files are, or the layers themselves."""
        owners = [paper.seat.client for paper in papers if paper.seat.client is not None]
        if not owners or self._states is None:
            return list(papers), None
        if on_disk := self._on_disk(member):
            known = [on_disk.latest(p.seat.client or 0) for p in papers]
            return [replace(p, kept_in=n) for p, n in zip(papers, known, strict=True)], None
        kept = {k: self._states.get(k) for k in owners}
        return list(papers), imported().put(pack({k: own for k, own in kept.items() if own}))

    def _on_disk(self, member: Member) -> StatesOnDisk | None:
        sees = member.about is not None and member.about.sees
        return self._states if sees and isinstance(self._states, StatesOnDisk) else None


class _RoundJob:
    """One round: its slices, who has done them, and what is to be kept once it stands."""

    def __init__(self, engine: RayEngine, roster: Roster, model: Any, around: Any) -> None:
        self.engine, self.roster, self.model = engine, roster, model
        self.around = imported().put(around)
        block, clients = engine._block, list(roster.clients)
        self.leaves = [clients[i : i + block] for i in range(0, len(clients), block)]
        sizes = [roster.population.examples(k, roster.round) for k in clients]
        self.sizes = dict(zip(clients, (float(n or 1) for n in sizes), strict=True))
        self.answers: dict[Piece, Answer[Report]] = {}
        self.numbers: dict[tuple[int, Piece], int] = {}

    def done(self) -> Summed:
        """Train all slices; those whose sums are lost, again."""
        engine = self.engine
        todo = self._cut()
        while True:
            self.answers |= engine._dispatch.carry_out(
                todo, self._send, self._stop, self._words, engine._ledger.in_seconds
            )
            pieces = sorted(self.answers, key=lambda piece: piece.first)
            _raise_first([(p.first, self.answers[p].report.problem) for p in pieces])
            try:
                summed = merged(engine._crew, [self.answers[p].references[0] for p in pieces])
            except LostSumsError as lost:
                todo = [pieces[place] for place in lost.places]
                for piece in todo:
                    del self.answers[piece]
                if todo:
                    names = ", ".join(self._words(piece) for piece in todo)
                    log.warning("sums went with a machine that was lost: %s; done again", names)
                continue
            self._learn()
            return summed

    def _cut(self) -> list[Piece]:
        engine, ledger = self.engine, self.engine._ledger
        costs = np.array([ledger.expect(c, [self.sizes[k] for k in c]).sum() for c in self.leaves])
        workers = sorted(engine._crew.members) or list(range(engine._crew.wanted))
        share = costs.sum() / len(workers)
        split = len(workers) > 1 and (not ledger.in_seconds or share > WORTH_SPLITTING)
        return cut(costs, workers, [ledger.speed(w) for w in workers], split)

    def _send(self, member: Member, piece: Piece) -> Sequence[Any]:
        engine, ray = self.engine, imported()
        engine._slices += 1
        self.numbers[member.number, piece] = engine._slices
        order = Slice(
            engine._slices, self.roster.round, piece.first, self.leaves[piece.first : piece.last]
        )
        carried = None
        if (states := engine._states) is not None:
            if on_disk := engine._on_disk(member):
                order = replace(order, kept_in=[on_disk.latest(k) for k in order.clients])
            else:
                found = {k: states.get(k) for k in order.clients}
                carried = ray.put(pack({k: kept for k, kept in found.items() if kept}))
        train = member.actor.train.options(num_returns=3)
        references: Sequence[Any] = train.remote(order, self.model, self.around, carried)
        return references

    def _stop(self, member: Member, piece: Piece) -> None:
        number = self.numbers[member.number, piece]
        member.actor.stop.options(concurrency_group="control").remote(number)

    def _words(self, piece: Piece) -> str:
        count = sum(map(len, self.leaves[piece.first : piece.last]))
        return f"{count} clients of round {self.roster.round}"

    def _clients(self, piece: Piece) -> list[int]:
        return [k for leaf in self.leaves[piece.first : piece.last] for k in leaf]

    def _learn(self) -> None:
        for piece, answer in self.answers.items():
            leaves = self.leaves[piece.first : piece.last]
            clients, sizes, seconds = list[int](), list[float](), list[float]()
            for leaf, took in zip(leaves, answer.report.seconds, strict=True):
                whole = sum(self.sizes[k] for k in leaf)
                clients += leaf
                sizes += [self.sizes[k] for k in leaf]
                seconds += [took * self.sizes[k] / whole for k in leaf]
            self.engine._ledger.learn(answer.worker, clients, sizes, seconds)

    def commit(self) -> None:
        """What clients keep stands now: their replies have been used."""
        states, t = self.engine._states, self.roster.round
        if states is None:
            return
        for piece in sorted(self.answers, key=lambda piece: piece.first):
            answer = self.answers[piece]
            if isinstance(states, StatesOnDisk):
                for client, nbytes in answer.report.kept:
                    states.noted(client, t, nbytes)
            if (kept := imported().get(answer.references[1])) is not None:
                own: Mapping[int, Kept] = unpack(kept)
                for client, state in own.items():
                    states.put(client, state)

    def told(self, seconds: float) -> list[dict[str, object]]:
        """How busy each worker was."""
        found: dict[int, dict[str, Any]] = {}
        for piece, answer in self.answers.items():
            about = found.setdefault(answer.worker, {"busy": 0.0, "clients": 0, "memory": 0})
            about["busy"] += sum(answer.report.seconds) / seconds
            about["clients"] += len(self._clients(piece))
            about["memory"] = max(about["memory"], answer.report.memory)
        for number in self.engine._crew.members:
            found.setdefault(number, {"busy": 0.0, "clients": 0, "memory": 0})
        return [
            {"worker": number, **found[number], "busy": round(found[number]["busy"], 4)}
            for number in sorted(found)
        ]


def _papers(exam: Exam) -> list[Paper]:
    """An exam in the batches in which it would be taken at once."""
    if exam.seat is None:
        raise ConfigError("the ray engine tests on the population's own tests alone")
    count, batch = len(exam.samples), evaluation_batch(exam.samples)
    return [Paper(exam.seat, first, min(first + batch, count)) for first in range(0, count, batch)]


def _same(some: Tensors, others: Tensors) -> bool:
    return some.keys() == others.keys() and all(t is others[name] for name, t in some.items())


def _raise_first(problems: Sequence[tuple[int, Problem | None]]) -> None:
    """As if one client had been trained after another: the first problem ends the round."""
    found = [problem for _, problem in problems if problem is not None]
    if found:
        raise min(found, key=lambda problem: problem.leaf).error
