"""The way of the data, one round:

population --sample--> cohort --train--> replies --aggregate--> model --evaluate--> record
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from ..algorithms import Algorithm
from ..data import Population, TestSet, sample_cohort
from ..engines import Engine, Job, Score, Training
from ..errors import ConfigError, DivergedError
from ..protocol import Message, Reply, Server
from ..tensors import first_not_finite
from .store import MemoryStore, Store

Record = dict[str, Any]
"""What is known of one round: a line of the run's record."""


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
        self.server = Server(algorithm, model, population.size)
        self.store: Store = MemoryStore() if store is None else store
        for client in self._clients(1):  # refuse an impossible cohort or empty clients now
            population.samples(client, 1)

    def round(self, evaluate: bool = True) -> Record:
        """Do the next round and tell what happened."""
        t = self.server.round + 1
        clients = self._clients(t)
        message = self.server.message()
        record: Record = {"round": t, "clients": len(clients), "train_loss": 0.0, "up": 0}
        replies = self._train(message, clients, record)
        disagreement = self.server.aggregate(replies, self.training.lr_in(t), checked=True)
        self._check_finite(t)
        record["train_loss"] /= len(clients)
        record["disagreement"] = disagreement
        record |= self._bytes_down(message, clients)
        record["state_bytes"], record["clients_with_state"] = self.store.nbytes, len(self.store)
        if (shift := self.population.shift(t)) is not None:
            record["shift"] = shift
        if evaluate:
            record |= self.evaluate(clients)
        return record

    def _clients(self, t: int) -> list[int]:
        return sample_cohort(self.seed, t, self.population.size, self.cohort)

    def _train(self, message: Message, clients: Iterable[int], record: Record) -> Iterator[Reply]:
        keeps = not self.algorithm.stateless
        jobs = (
            Job(
                client,
                self.population.samples(client, message.round),
                self.store.get(client) if keeps else None,
            )
            for client in clients
        )
        for result in self.engine.train(message, jobs):
            client = self.algorithm.client
            if (misfit := result.reply.misfit(message, client.up)) is not None:
                raise ConfigError(f"{client.name}: the reply of client {result.client}: {misfit}")
            if (where := result.reply.not_finite()) is not None:
                raise self._diverged(message.round, f"client {result.client} sent {where}")
            if result.kept is not None:
                self.store.put(result.client, result.kept)
            record["train_loss"] += result.loss
            record["up"] += result.reply.nbytes
            yield result.reply

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
        tests = self.population.tests(self.server.round)
        scores = {test.name: self._score(test, clients) for test in tests}
        record: Record = {
            "accuracy": sum(s.accuracy for s in scores.values()) / len(scores),
            "loss": sum(s.loss for s in scores.values()) / len(scores),
        }
        if len(scores) > 1:
            record["domains"] = {name: score.accuracy for name, score in scores.items()}
        return record

    def _score(self, test: TestSet, clients: list[int]) -> Score:
        """With layers of their own, clients are tested with those: a set's owner, if it has one,
        else all clients of the round, whose scores are averaged."""
        if self.algorithm.sharing == "everything":
            return self.engine.evaluate(self.server.model, test.samples)
        owners = clients if test.owner is None else [test.owner]
        scores = [
            self.engine.evaluate(self.server.model, test.samples, self.store.get(k)) for k in owners
        ]
        return Score(
            sum(s.accuracy for s in scores) / len(scores), sum(s.loss for s in scores) / len(scores)
        )

    def _check_finite(self, t: int) -> None:
        name = first_not_finite(self.server.model)
        if name is not None:
            raise self._diverged(t, f"the global model has NaN or infinity in '{name}'")

    def _diverged(self, t: int, what: str) -> DivergedError:
        advice = f"lower training.lr (now {self.training.lr:g})"
        if more := self.algorithm.advice():
            advice += f"; or {more}"
        return DivergedError(f"{self.algorithm.describe()} diverged in round {t}: {what}; {advice}")
