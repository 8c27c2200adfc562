"""The workers of a Ray cluster that serve a run, or several runs in step."""

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError, FedforError
from ...importing import told
from ..engine import Exam, Marks, Score, evaluation_batch, score
from .cluster import Cluster, imported, reason
from .costs import WORTH_SPLITTING, Piece, cut
from .crew import Crew, Member
from .dispatch import MOST_TRIES, Answer, Dispatch
from .merge import LostSumsError, merged
from .orders import DATA, Paper, Place
from .parcel import Parcel, pack

if TYPE_CHECKING:
    from ...data import DataSplit
    from .engine import RayEngine, RoundJob

log = logging.getLogger("fedfor")


class Pool:
    """Workers hold a model for each run that they serve; data that runs share are there once."""

    def __init__(self, engine: str, workers: int | None, gpus: bool) -> None:
        self.crew = Crew(Cluster(engine, workers), workers, gpus)
        self.dispatch = Dispatch(self.crew)
        self.speeds: dict[int, float] = {}
        """Of each worker, as measured."""
        self._engines: dict[int, RayEngine] = {}
        self._joined = 0
        self._homes: dict[int, Home] = {}
        self._splits: dict[int, tuple[DataSplit, int, Any]] = {}
        self._started = False
        self._a_sample: float | None = None
        """Seconds that testing on it took, the last time."""

    # Who is served

    def join(self, engine: "RayEngine") -> int:
        """Serve a run, from when it first asks for something. Gives its number here."""
        self._joined += 1
        self._engines[self._joined] = engine
        return self._joined

    def leave(self, number: int) -> None:
        """A run is over. With the last one, everyone is sent home."""
        self._engines.pop(number, None)
        self._homes.pop(number, None)
        if self._started and not self._engines:
            self._started = False
            self._splits.clear()
            self.crew.close()

    def start(self) -> None:
        if self._started:
            return
        self._started = True
        found = [engine.federation.states for engine in self._engines.values()]
        self.crew.start(next((Path(folder) for folder in found if folder is not None), None))

    def home(self, engine: "RayEngine") -> "Home":
        """What a worker needs to know of a run, in the object store once."""
        if (home := self._homes.get(engine.number)) is None:
            split = engine.federation.population.split
            if id(split) not in self._splits:
                self._splits[id(split)] = split, engine.number, imported().put(pack(split))
            _, of_data, data = self._splits[id(split)]
            parcel = imported().put(_packed(engine, split))
            home = Home((engine.number, of_data), parcel, data)
            self._homes[engine.number] = home
        return home

    # Training

    def train(self, jobs: Sequence["RoundJob"]) -> None:
        """Have the clients of these rounds trained; each gets its sums, or its error."""
        if not jobs:
            return
        self.start()
        left = list(range(len(jobs)))
        todo = self._cut_rounds(jobs)

        def send(member: Member, piece: Piece) -> Sequence[Any]:
            return jobs[piece.job].send(member, piece)

        while todo:
            seconds = all(job.engine.ledger.in_seconds for job in jobs)
            found = self.dispatch.carry_out(
                todo,
                send,
                lambda member, piece: jobs[piece.job].stop(member, piece),
                lambda piece: jobs[piece.job].words(piece),
                seconds,
            )
            for piece, answer in found.items():
                jobs[piece.job].answers[piece] = answer
            todo = []
            for place in left:
                todo += self._add_up(jobs[place])
            left = [place for place in left if any(piece.job == place for piece in todo)]
        for job in jobs:
            job.learn()

    def _add_up(self, job: "RoundJob") -> list[Piece]:
        """All that a round's slices come to; or those that must be trained again."""
        pieces = sorted(job.answers, key=lambda piece: piece.first)
        problems = [job.answers[piece].report.problem for piece in pieces]
        if found := [problem for problem in problems if problem is not None]:
            # As if one client had been trained after another: the first one ends the round.
            job.error = min(found, key=lambda problem: problem.leaf).error
            return []
        for tries in itertools.count(1):
            try:
                job.collect()
                job.summed = merged(self.crew, [job.answers[p].references[0] for p in pieces])
            except LostSumsError as lost:
                again = [pieces[place] for place in lost.places]
                if not again:
                    if tries >= MOST_TRIES:
                        raise FedforError(
                            f"the sums of round {job.roster.round} cannot be added up, as "
                            f"{tries} tries have shown ({reason(lost.__cause__ or lost)}); "
                            "workers may run out of memory at it: run fewer on a machine"
                        ) from lost
                    self.dispatch.settle()
                    continue
                names = ", ".join(job.words(piece) for piece in again)
                log.warning("sums went with a machine that was lost: %s; done again", names)
                for piece in again:
                    del job.answers[piece]
                return again
            break
        return []

    def _cut_rounds(self, jobs: Sequence["RoundJob"]) -> list[Piece]:
        costs = [job.costs() for job in jobs]
        workers = self.workers
        share = sum(float(c.sum()) for c in costs) / len(workers)
        known = all(job.engine.ledger.in_seconds for job in jobs)
        split = len(workers) > 1 and (not known or share > WORTH_SPLITTING)
        return cut(costs, workers, [self.speeds.get(w, 1.0) for w in workers], split)

    @property
    def workers(self) -> list[int]:
        """Those that are there, or else that will be."""
        return sorted(self.crew.members) or list(range(self.crew.wanted))

    # Testing

    def evaluate(self, asked: Sequence[tuple["RayEngine", Sequence[Exam]]]) -> list[list[Score]]:
        """The scores of each run's exams, cut into the batches in which they would be taken."""
        if not any(exams for _, exams in asked):
            return [[] for _ in asked]
        self.start()
        tests = [_Test(engine, exams) for engine, exams in asked if exams]
        each = 1.0 if self._a_sample is None else self._a_sample
        costs = [np.array([each * (p.last - p.first) for _, p in test.papers]) for test in tests]
        pieces = cut(costs, self.workers, [1.0] * len(self.workers), split=False)

        def send(member: Member, piece: Piece) -> Sequence[Any]:
            return tests[piece.job].send(member, piece)

        answers = self.dispatch.carry_out(
            pieces,
            send,
            lambda *_: None,
            lambda _: "a test of the model",
            in_seconds=self._a_sample is not None,
        )
        samples = sum(float(cost.sum()) for cost in costs) / each
        self._a_sample = sum(answer.seconds for answer in answers.values()) / samples
        for place, test in enumerate(tests):
            test.answers = {p: a for p, a in answers.items() if p.job == place}
        graded = iter(tests)
        return [next(graded).scores() if exams else [] for _, exams in asked]


@dataclass(frozen=True)
class Home:
    place: Place
    parcel: Any
    data: Any


def _packed(engine: "RayEngine", split: "DataSplit") -> Parcel:
    try:
        return pack(engine.federation, {id(split): DATA})
    except Exception as error:  # whatever things of one's own may raise
        raise ConfigError(
            f"the run cannot be sent to workers ({told(error)}): its model, loss and population "
            "must be such that pickle takes them, without locks, open files or generators; or use "
            "engine = 'serial'"
        ) from error


class _Test:
    """A model's exams as papers."""

    def __init__(self, engine: "RayEngine", exams: Sequence[Exam]) -> None:
        self.engine, self.exams = engine, exams
        self.papers = [(n, paper) for n, exam in enumerate(exams) for paper in _papers(exam)]
        self.model = engine.put_model_of(exams[0].model)
        self.answers: Mapping[Piece, Answer[Any]] = {}

    def send(self, member: Member, piece: Piece) -> Sequence[Any]:
        mine = [paper for _, paper in self.papers[piece.first : piece.last]]
        mine, carried = self.engine.with_states(member, mine)
        home = self.engine.home()
        grade = member.actor.grade.remote
        return [grade(mine, home.place, home.parcel, home.data, self.model, carried)]

    def scores(self) -> list[Score]:
        graded = sorted(self.answers.items(), key=lambda item: item[0].first)
        for _, answer in graded:
            if answer.report.problem is not None:
                raise answer.report.problem.error
        marks = [mark for _, answer in graded for mark in answer.report.marks]
        of_exam: dict[int, Marks] = {}
        for (n, _), mark in zip(self.papers, marks, strict=True):
            of_exam[n] = of_exam[n] + mark if n in of_exam else mark
        return [score(exam.samples, of_exam[n]) for n, exam in enumerate(self.exams)]


def _papers(exam: Exam) -> list[Paper]:
    """An exam in the batches in which it would be taken at once."""
    if exam.seat is None:
        raise TypeError("the ray engine tests on the population's own tests alone")
    count, batch = len(exam.samples), evaluation_batch(exam.samples)
    return [Paper(exam.seat, first, min(first + batch, count)) for first in range(0, count, batch)]
