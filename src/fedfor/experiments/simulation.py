"""The way of the data, one round:

population --sample--> cohort --train--> replies --aggregate--> model --evaluate--> record
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..data import Population, TestSet, sample_cohort
from ..engines import Engine, Exam, Job, Result, Score, StackedResult, Training
from ..engines.engine import Ahead
from ..errors import ConfigError, DivergedError
from ..protocol import Aggregation, Agreement, Message, Server
from ..tensors import first_not_finite
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
    ) -> None:
        self.population, self.algorithm, self.training = population, algorithm, training
        self.engine, self.cohort, self.seed = engine, cohort, seed
        in_rows = engine.name == "vector"  # whose replies are rows already
        self.server = Server(algorithm, model, population.size, in_rows=in_rows)
        self.store: Store = MemoryStore() if store is None else store
        self._ahead: tuple[int, list[Job]] | None = None
        for client in self._clients(1):  # refuse an impossible cohort or empty clients now
            population.samples(client, 1)

    def round(self, evaluate: bool = True) -> Record:
        """Do the next round and tell what happened."""
        return drive(self.steps(evaluate))

    def steps(self, evaluate: bool = True) -> "Steps[Record]":
        """The next round, asking whoever drives it for the work: training, then scores.

        So a round reads alike whether an engine does the work of one run or of many at once.
        """
        t = self.server.round + 1
        clients = self._clients(t)
        message = self.server.message()
        record: Record = {"round": t, "clients": len(clients), "up": 0, "local_steps": 0.0}
        replies, losses = self.server.begin(), []
        unchecked: list[tuple[StackedResult, Tensor]] = []

        def take(result: Result | StackedResult) -> None:
            stacked = result.stacked()
            self._check_fits(stacked, message)
            sound = replies.add(stacked.reply, checked=True)
            if len(stacked.clients) == len(clients) and stacked.kept is None:
                unchecked.append((stacked, sound))  # soon enough once the round is done
            else:
                self._require_sound(stacked, message, bool(sound))
            record["up"] += stacked.reply.nbytes
            record["local_steps"] += sum(stacked.reply.steps) / len(clients)
            losses.append(stacked.losses.sum(dtype=torch.float64))
            for client, kept in zip(stacked.clients, stacked.kept or (), strict=False):
                self.store.put(client, kept)

        yield Train(self.engine, message, self._jobs(t, clients), take, self._look_ahead(t + 1))
        record |= self._moved(replies, losses, unchecked)
        record |= self._bytes_down(message, clients)
        record["state_bytes"], record["clients_with_state"] = self.store.nbytes, len(self.store)
        if (shift := self.population.shift(t)) is not None:
            record["shift"] = shift
        if evaluate:
            record |= yield from self._evaluated(clients)
        return record

    def _moved(
        self,
        replies: Aggregation,
        losses: list[Tensor],
        unchecked: Sequence[tuple[StackedResult, Tensor]],
    ) -> Record:
        """The server's step. The one time in a round that a GPU is waited for."""
        before, t = self.server.snapshot(), self.server.round + 1
        agreed = self.server.finish(replies, self.training.lr_in(t)).tensors
        told = [torch.stack(losses).sum(), self.server.seems_finite()]
        numbers = _read([*agreed, *told, *(sound for _, sound in unchecked)])
        agreement, (loss, finite, *sound) = numbers[: len(agreed)], numbers[len(agreed) :]
        try:
            for (result, _), is_sound in zip(unchecked, sound, strict=True):
                self._require_sound(result, replies.message, bool(is_sound))
            self._require_finite(replies.message, bool(finite))
        except DivergedError:
            self.server.load_state(t - 1, before)  # what is kept of the run is its last good model
            raise
        return {**Agreement.record(agreement), "train_loss": loss / replies.count}

    def _clients(self, t: int) -> list[int]:
        return sample_cohort(self.seed, t, self.population.size, self.cohort)

    def _jobs(self, t: int, clients: Iterable[int]) -> Iterator[Job]:
        if self._ahead is not None and self._ahead[0] == t:
            return iter(self._ahead[1])
        fetch = None if self.algorithm.stateless else self.store.get
        return (Job(k, self.population.samples(k, t), fetch=fetch) for k in clients)

    def _look_ahead(self, t: int) -> Ahead:
        """Prepares a round's jobs while another is still trained, and keeps them until then."""

        def jobs() -> list[Job]:
            self._ahead = t, list(self._jobs(t, self._clients(t)))
            return self._ahead[1]

        return jobs

    def _check_fits(self, result: StackedResult, message: Message) -> None:
        name, up = self.algorithm.client.name, self.algorithm.client.up
        if (misfit := result.reply.misfit(message, up)) is not None:
            raise ConfigError(f"{name}: the reply of client {result.clients[0]}: {misfit}")

    def _require_sound(self, result: StackedResult, message: Message, is_sound: bool) -> None:
        if not is_sound and (broken := result.reply.first_not_finite(message)) is not None:
            place, where = broken
            raise self._diverged(message.round, f"client {result.clients[place]} sent {where}")

    def _bytes_down(self, message: Message, clients: list[int]) -> Record:
        """Bytes down in both forms. In a silo, who was called last round still has that model."""
        before = set(self._clients(message.round - 1)) if message.round > 1 else set()
        still_there = len(before.intersection(clients))
        fresh = len(clients) - still_there
        return {
            "down_cross_device": message.nbytes * len(clients),
            "down_cross_silo": message.nbytes * fresh + message.silo_nbytes * still_there,
        }

    def evaluate(self, clients: list[int]) -> Record:
        """Test the global model on every test set; sets count alike."""
        return drive(self._evaluated(clients))

    def _evaluated(self, clients: list[int]) -> "Steps[Record]":
        tests = self.population.tests(self.server.round)
        exams = [self._exams(test, clients) for test in tests]
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

    def _exams(self, test: TestSet, clients: list[int]) -> list[Exam]:
        """With layers of their own, clients are tested with those: a set's owner, if it has one,
        else all clients of the round, whose scores are averaged."""
        model = self.server.model
        if self.algorithm.sharing == "everything":
            return [Exam(model, test.samples)]
        owners = clients if test.owner is None else [test.owner]
        return [Exam(model, test.samples, self.store.get(k)) for k in owners]

    def _require_finite(self, message: Message, is_finite: bool) -> None:
        name = None if is_finite else first_not_finite(self.server.model, message.buffers)
        if name is not None:
            what = f"the global model has NaN or infinity in '{name}'"
            raise self._diverged(message.round, what)

    def _diverged(self, t: int, what: str) -> DivergedError:
        advice = f"lower training.lr (now {self.training.lr:g})"
        if more := self.algorithm.advice():
            advice += f"; or {more}"
        return DivergedError(f"{self.algorithm.describe()} diverged in round {t}: {what}; {advice}")


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
