"""The way of the data, one round:

population --sample--> cohort --train--> replies --aggregate--> model --evaluate--> record
"""

import functools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..data import Availability, Call, Caller, Population, TestSet
from ..engines import Engine, Exam, Job, Result, Score, StackedResult, Training
from ..engines.engine import Ahead, Roster, Seat, Summed
from ..engines.intake import Intake
from ..errors import DivergedError
from ..protocol import Agreement, Message, Server
from ..tensors import Tensors, first_not_finite
from .store import MemoryStore, Store
from .work import Evaluate, Steps, Train, drive

Record = dict[str, Any]
"""What is known of one round: a line of the run's record."""

MOST_CLASSES = 100
"""Of which a round's record tells the accuracies: nobody looks at more, and every line has them."""


class Simulation:
    """A federation in one process. Every round is a function of the seed and the state before."""

    def __init__(
        self,
        population: Population,
        model: nn.Module,
        algorithm: Algorithm,
        training: Training,
        engine: Engine,
        *,
        cohort: int,
        seed: int,
        store: Store | None = None,
        availability: Availability | None = None,
    ) -> None:
        self.population, self.algorithm, self.training = population, algorithm, training
        self.engine, self.seed = engine, seed
        self.caller = Caller(population, cohort, seed, availability)
        if (shortage := self.caller.shortage()) is not None:
            warnings.warn(shortage, stacklevel=2)
        self.server = Server(algorithm, model, population.size, in_rows=engine.steps_in_rows)
        self.store: Store = MemoryStore() if store is None else store
        self._ahead: tuple[int, list[Job]] | None = None
        for client in self.caller.call(1).called:  # refuse clients without data now
            population.samples(client, 1)

    def round(self, evaluate: bool = True) -> Record:
        """Do the next round and tell what happened."""
        return drive(self.steps(evaluate))

    def steps(self, evaluate: bool = True) -> "Steps[Record]":
        """The next round, asking whoever drives it for the work: training, then scores.

        So a round reads alike whether an engine does the work of one run or of many at once.
        """
        t = self.server.round + 1
        call = self.caller.call(t)
        message = replace(self.server.message(), came_of=self.caller.last_counted(t - 1))
        record: Record = {"round": t, "clients": len(call.clients), **call.told}
        if call.clients:
            record |= yield from self._trained(call, message)
        else:
            record |= self._abandoned()
        record |= self._bytes_down(message, call)
        record["state_bytes"], record["clients_with_state"] = self.store.nbytes, len(self.store)
        if (shift := self.population.shift(t)) is not None:
            record["shift"] = shift
        if evaluate:
            record |= yield from self._evaluated(self._last_to_count(t))
        return record

    def _trained(self, call: Call, message: Message) -> "Steps[Record]":
        t, clients = call.round, call.clients
        replies = self.server.begin()
        intake = Intake(self.algorithm, self.training, replies, self.store.put)

        def take(result: Result | StackedResult | Summed) -> None:
            if isinstance(result, Summed):
                replies.merge(result.nodes)
            else:  # of all in one, it is soon enough to ask once the round is done
                intake.take(result, wait=len(result.stacked().clients) < len(clients))

        jobs = self._jobs(t, clients, replies.last_move)
        yield Train(self.engine, message, jobs, take, self._look_ahead(t + 1))
        record: Record = {"up": replies.total.nbytes}
        record["local_steps"] = replies.total.steps / len(clients)
        record |= self._moved(intake) | self.engine.of_round()
        if not message.moved_in:
            record["opposing"] = None  # there is no move yet that one could be against
        return record

    def _abandoned(self) -> Record:
        """Too few have reported: the model stays as it is."""
        self.server.round += 1
        return {"up": 0}

    def _last_to_count(self, t: int) -> list[int]:
        """The clients of the last round that moved the model: of this one, unless it is abandoned.

        So an abandoned round is tested on the layers that the round before it was.
        """
        counted = self.caller.last_counted(t)
        return self.caller.call(counted).clients if counted else []

    def _moved(self, intake: Intake) -> Record:
        """The server's step. The one time in a round that a GPU is waited for."""
        before, t = self.server.snapshot(), self.server.round + 1
        agreed = self.server.finish(intake.replies, self.training.lr_in(t)).tensors
        told = [intake.replies.mean_loss(), self.server.seems_finite()]
        numbers = _read([*agreed, *told, *intake.open_questions])
        agreement, (loss, finite, *sound) = numbers[: len(agreed)], numbers[len(agreed) :]
        try:
            intake.answer(sound)
            self._require_finite(intake, bool(finite))
        except DivergedError:
            self.server.load_state(t - 1, before)  # what is kept of the run is its last good model
            raise
        return {**Agreement.record(agreement), "train_loss": loss}

    def _jobs(
        self, t: int, clients: Sequence[int], last_move: Tensors | None = None
    ) -> Iterable[Job]:
        if self._ahead is not None and self._ahead[0] == t:
            return self._ahead[1]
        fetch = None if self.algorithm.stateless else self.store.get
        return Roster(t, clients, self.population, fetch, last_move)

    def _look_ahead(self, t: int) -> Ahead:
        """Prepares a round's jobs while another is still trained, and keeps them until then."""

        def jobs() -> list[Job]:
            self._ahead = t, list(self._jobs(t, self.caller.call(t).clients))
            return self._ahead[1]

        return jobs

    def _bytes_down(self, message: Message, call: Call) -> Record:
        """Bytes down in both forms. In a silo, who was called last round still has that model."""
        before = set(self.caller.call(message.round - 1).called) if message.round > 1 else set()
        still_there = len(before.intersection(call.called))
        fresh = len(call.called) - still_there
        return {
            "down_cross_device": message.nbytes * len(call.called),
            "down_cross_silo": message.nbytes * fresh + message.silo_nbytes * still_there,
        }

    def evaluate(self, clients: list[int]) -> Record:
        """Test the global model on every test set; sets count alike."""
        return drive(self._evaluated(clients))

    def _evaluated(self, clients: list[int]) -> "Steps[Record]":
        tests = self.population.tests(self.server.round)
        exams = [self._exams(test, clients, place) for place, test in enumerate(tests)]
        given = yield Evaluate(self.engine, [exam for of_test in exams for exam in of_test])
        remaining = iter(given)
        scores = {
            test.name: _mean([next(remaining) for _ in of_test])
            for test, of_test in zip(tests, exams, strict=True)
        }
        record: Record = {
            "accuracy": sum(s.accuracy for s in scores.values()) / len(scores),
            "loss": sum(s.loss for s in scores.values()) / len(scores),
        }
        if len(scores) > 1:
            record["domains"] = {name: score.accuracy for name, score in scores.items()}
        elif 0 < len(by_class := next(iter(scores.values())).by_class) <= MOST_CLASSES:
            record["classes"] = list(by_class)
        return record

    def _exams(self, test: TestSet, clients: list[int], place: int = 0) -> list[Exam]:
        """With layers of their own, clients are tested with those: a set's owner, if it has one,
        else all clients of the round, whose scores are averaged."""
        model, seat = self.server.model, Seat(self.server.round, place)
        if self.algorithm.sharing == "everything":
            return [Exam(model, test.samples, seat=seat)]
        owners = [test.owner] if test.owner is not None else clients
        if not owners:  # no round has counted yet: as a new client has them
            return [Exam(model, test.samples, seat=seat)]
        return [
            Exam(
                model,
                test.samples,
                fetch=functools.partial(self.store.get, k),
                seat=replace(seat, client=k),
            )
            for k in owners
        ]

    def _require_finite(self, intake: Intake, is_finite: bool) -> None:
        before = intake.message.buffers
        name = None if is_finite else first_not_finite(self.server.model, before)
        if name is not None:
            raise intake.diverged(f"the global model has NaN or infinity in '{name}'")


def _read(numbers: Sequence[Tensor]) -> list[float]:
    """All at once: each question to a GPU waits for all that it has still to do."""
    first = numbers[0]
    values: list[float] = torch.stack([n.to(first) for n in numbers]).tolist()
    return values


def _mean(scores: list[Score]) -> Score:
    """Of exams on the same samples."""
    by_class = zip(*(s.by_class for s in scores), strict=True)
    return Score(
        sum(s.accuracy for s in scores) / len(scores),
        sum(s.loss for s in scores) / len(scores),
        tuple(None if None in of_class else sum(of_class) / len(scores) for of_class in by_class),
    )
