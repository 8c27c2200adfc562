"""Any ClientOpt x ServerOpt x Sharing as a strategy on Flower's Message API."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import get_args

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log
from torch import nn

from ..algorithms import Algorithm, ClientOpt, settings
from ..errors import ConfigError, require_choice, require_number, require_whole
from ..protocol import Agreement, Server
from ..randomness import entropy
from ..tensors import Extras, Tensors, first_not_finite
from .account import Account, Record, scores
from .inbox import Inbox
from .nodes import Sampler
from .outbox import Form, Outbox
from .records import WireError, from_record, to_record
from .replies import (
    BUFFERS,
    PARAMETERS,
    GoodReply,
    Rejected,
    common_metrics,
    in_order,
)
from .wire import ARRAYS, EXAMPLES

Aggregate = Callable[[list[RecordDict], str], MetricRecord]


class Strategy(FedAvg):
    """Runs an algorithm of fedfor over the nodes of a Flower federation.

        strategy = fedfor.flower.Strategy("fedfor", model, folder="runs/digits")
        result = strategy.start(grid, num_rounds=50)

    `model` is what clients train, with its initial weights. Clients answer with
    `fedfor.flower.train` or `fedfor.flower.LocalRound`.

    - `folder`: where rounds, checkpoints and the final model go. Started again with the same
      folder, it goes on after the last round that is there.
    - `form`: `cross-device` sends all that is needed to every client; `cross-silo` sends a client
      that took part in the last round only what changed since, and asks it to keep the model.
    - `population`: how many clients there are (FedDyn and SCAFFOLD scale by it); by default as
      many as are connected at the first round.
    - `max_norm`: the longest change of parameters, and of buffers, that is believed; or a table of
      bounds for `parameters`, `buffers` and what a method sends up, such as `control_change`.
    - `min_replies`: good replies that a round needs; by default half of the nodes asked.
    - `retries`: how often a round with too few is tried again before the run stops.
    - `patience`: seconds that nodes are waited for which have left, before others go on alone.
    - `seed`: of the choice of nodes.

    The others are those of Flower's FedAvg.
    """

    def __init__(
        self,
        algorithm: Algorithm | ClientOpt | str,
        model: nn.Module,
        *,
        folder: str | Path | None = None,
        form: Form = "cross-device",
        population: int | None = None,
        max_norm: float | Mapping[str, float] | None = None,
        min_replies: int | None = None,
        retries: int = 2,
        patience: float = 300.0,
        checkpoint_every: int = 1,
        seed: int = 0,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
    ) -> None:
        super().__init__(
            fraction_train=fraction_train,
            fraction_evaluate=fraction_evaluate,
            min_train_nodes=min_train_nodes,
            min_evaluate_nodes=min_evaluate_nodes,
            min_available_nodes=min_available_nodes,
            weighted_by_key=EXAMPLES,
            arrayrecord_key=ARRAYS,
            train_metrics_aggr_fn=train_metrics_aggr_fn,
            evaluate_metrics_aggr_fn=evaluate_metrics_aggr_fn,
        )
        require_choice("Strategy", "form", form, get_args(Form))
        require_number("Strategy", "fraction_train", fraction_train, above=0, most=1)
        require_number("Strategy", "fraction_evaluate", fraction_evaluate, least=0, most=1)
        for name, value in (("population", population), ("min_replies", min_replies)):
            if value is not None:
                require_whole("Strategy", name, value)
        require_whole("Strategy", "checkpoint_every", checkpoint_every)
        require_whole("Strategy", "retries", retries, least=0)
        require_number("Strategy", "patience", patience, least=0)
        self.folder = None if folder is None else Path(folder)
        self.form, self.seed = form, seed
        self.min_replies, self.retries = min_replies, retries
        self.checkpoint_every = checkpoint_every
        self.server = Server(algorithm, model, population or 1)
        self.algorithm = self.server.algorithm
        self.longest = _bounds(max_norm, self.algorithm)
        self.records: list[Record] = []
        """What is known of each round that is done, as in the simulator's rounds.jsonl."""
        self.in_our_loop = False
        self.population = population
        self._population_known = population is not None
        self._given: ArrayRecord | None = None
        self._before: Tensors = {}
        self._sampler = Sampler(min_available_nodes, patience)
        self._is_sifted = False
        self._shortage = ""
        self._outbox = Outbox(self.algorithm, form, self.configrecord_key)
        self._inbox = Inbox(self._outbox, self.algorithm, self.longest)
        self._account: Account | None = None
        self._state_bytes: dict[int, int] = {}

    # What drives it

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As Flower's `start`, with resume and retries. Without arrays, from the model's own."""
        from .loop import start

        return start(
            self,
            grid,
            initial_arrays,
            num_rounds,
            timeout,
            train_config,
            evaluate_config,
            evaluate_fn,
        )

    def arrays(self) -> ArrayRecord:
        """The shared part of the global model."""
        self._given = to_record(self.server.model)
        return self._given

    def adopt(self, arrays: ArrayRecord) -> None:
        """Go on from these, which a wrapper may have changed since they were given to it.

        What clients get to see of the last step is taken anew from them: of a model with noise on
        it, FedFOR's direction must not tell the noise.
        """
        if arrays is self._given:
            return
        try:
            given = from_record(arrays)
        except WireError as error:
            raise ConfigError(f"the arrays to start from cannot be read: {error}") from error
        for name, tensor in self.server.model.items():
            if name not in given or given[name].shape != tensor.shape:
                found = tuple(given[name].shape) if name in given else "missing"
                raise ConfigError(
                    f"the arrays to start from do not fit the strategy's model: '{name}' is "
                    f"{found}, expected {tuple(tensor.shape)}"
                )
        self.server.move_to(given, self._before or None)
        self._given = arrays

    def go_on(self, done: int, state: Extras, population: int) -> None:
        """Take up a federation after a round that is done, from what was saved of it."""
        self.server.load_state(done, state)
        self.server.population, self._population_known = population, True

    def summary(self) -> None:
        """Log the settings, as Flower's strategies do."""
        log(INFO, "\t├──> Algorithm: %s", self.algorithm.label)
        client, server = self.algorithm.client, self.algorithm.server
        for part in (client, server):
            log(INFO, "\t│\t├── %s: %s", type(part).__name__, settings(part) or "no settings")
        log(INFO, "\t│\t├── Sharing: %s", self.algorithm.sharing)
        log(INFO, "\t│\t└── Weighting: %s", self.algorithm.weighting)
        keeps = "nothing" if self.algorithm.stateless else ", ".join(client.keeps) or "own layers"
        log(INFO, "\t├──> Wire:")
        log(INFO, "\t│\t├── Form: %s", self.form)
        log(INFO, "\t│\t├── Beside the model, down: %s", ", ".join(client.down) or "nothing")
        log(INFO, "\t│\t├── Beside the model, up: %s", ", ".join(client.up) or "nothing")
        log(INFO, "\t│\t└── Kept on clients: %s", keeps)
        log(INFO, "\t├──> Replies:")
        log(INFO, "\t│\t├── Needed: %s", self.min_replies or "half of the nodes asked")
        log(INFO, "\t│\t├── Longest changes: %s", self.longest or "any")
        log(INFO, "\t│\t└── Retries of a round: %d", self.retries)
        log(INFO, "\t├──> Folder: %s", self.folder or "none, so it cannot be resumed")
        super().summary()

    # A round

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.adopt(arrays)
        if not self.in_our_loop:
            self.warn_of_wrapper("the strategy around it")
        sent = self.server.message()
        if self._account is None or self._account.sent.round != sent.round:
            self._account = Account(sent, self.form == "cross-silo")
        self._account.attempts += 1
        bits, least = self._entropy("train", self._account.attempts), self.min_train_nodes
        fewest = self.min_replies or -(-least // 2) or 1
        nodes, total = self._sampler.draw(grid, bits, self.fraction_train, least, fewest)
        log(INFO, "configure_train: Sampled %s nodes (out of %s)", len(nodes), total)
        if not self._population_known:
            self.server.population, self._population_known = total, True
        told = ConfigRecord({**config, "server-round": server_round})
        self._is_sifted = False
        self._inbox.begin()
        messages = self._outbox.train(sent, nodes, told)
        self._account.went_down(messages, self._outbox.has_last_model)
        return messages

    def whole_models(self, replies: Sequence[Message]) -> tuple[list[Message], list[Message]]:
        """The other replies, and messages for clients that have lost the model that a difference
        belongs to."""
        lost: list[Message] = []
        others: list[Message] = []
        for reply in replies:
            (lost if self._inbox.has_lost_model(reply) else others).append(reply)
        if not lost or self._account is None:
            return others, []
        self._account.came_up(lost)
        nodes = [self._outbox.node_of(r) for r in lost]
        for node in nodes:
            log(INFO, "\t> Node %d has not got the last model and gets all of it", node)
        self._outbox.has_last_model -= set(nodes)
        messages = self._outbox.whole(self._account.sent, nodes)
        self._account.went_down(messages, self._outbox.has_last_model)
        return others, messages

    def sift(self, replies: Sequence[Message]) -> list[Message] | None:
        """The sound replies, for wrappers, which stumble over others; None if they are too few."""
        if self._account is None:
            return None
        self._account.came_up(replies)
        self._is_sifted = True
        good, bad = self._inbox.trained(replies, self._account.sent)
        self._inbox.tell("replies", len(good), bad)
        self._account.rejected += bad
        return [one.message for one in good] if self._is_enough(len(good)) else None

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self._account is None:
            raise ConfigError("aggregate_train was called before configure_train")
        account, replies = self._account, list(replies)
        if not self._is_sifted:
            account.came_up(replies)
        good, bad = self._inbox.trained(replies, account.sent)
        good, agreement = self._step(in_order(good), bad)
        self._inbox.tell("aggregate_train", len(good), bad)
        account.rejected += bad
        if agreement is None:
            return None, None
        self._outbox.used(account.sent, (one.node for one in good))
        self._state_bytes |= {r.node: r.about.state_bytes for r in good if r.about}
        told = Agreement.record([float(number) for number in agreement.tensors])
        record = account.record(good, self._state_bytes) | told
        self.records.append(record)
        metrics = [(one.reply.examples, one.metrics) for one in good]
        return self.arrays(), self.train_metrics_aggr_fn(common_metrics(metrics), EXAMPLES)

    def _step(
        self, good: list[GoodReply], bad: list[Rejected]
    ) -> tuple[list[GoodReply], Agreement | None]:
        """Move the model by these replies; None where they are too few.

        Finite replies can make a model that is not: then the longest is left out.
        """
        before, state, done = dict(self.server.params), self.server.snapshot(), self.server.round
        while self._is_enough(len(good)):
            aggregation = self.server.begin()
            for one in good:
                aggregation.add(one.reply, checked=True)
            agreement = self.server.finish(aggregation, _client_lr(good))
            sent = aggregation.message
            if self._is_finite(sent.buffers):
                self._before = before
                return good, agreement
            self.server.load_state(done, state)
            norms = {one.node: one.norm(PARAMETERS, sent) for one in good}
            worst = max(norms, key=lambda node: norms[node])
            why = f"with its update, of norm {norms[worst]:.4g}, the model would not be finite"
            bad.append(Rejected(worst, why))
            good = [one for one in good if one.node != worst]
        return good, None

    def _is_finite(self, buffers: Tensors) -> bool:
        """The model and all state beside it; buffers that never were, masks say, are no trouble."""
        known = {"buffers": buffers}
        state = self.server.state().items()
        return all(first_not_finite(ts, known.get(extra, {})) is None for extra, ts in state)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.adopt(arrays)
        self._outbox.asked = {}
        if self.fraction_evaluate == 0.0:
            return []
        bits, least = self._entropy("evaluate", 1), self.min_evaluate_nodes
        nodes, total = self._sampler.draw(grid, bits, self.fraction_evaluate, least, fewest=0)
        log(INFO, "configure_evaluate: Sampled %s nodes (out of %s)", len(nodes), total)
        told = ConfigRecord({**config, "server-round": server_round})
        return self._outbox.evaluate(self.server.round, self.server.model, nodes, told)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        if not self._outbox.asked:
            return None
        self._inbox.begin()
        good, bad = self._inbox.tested(list(replies))
        self._inbox.tell("aggregate_evaluate", len(good), bad)
        if not good:
            return None
        if self.records:
            self.records[-1].update(scores(good))
        contents = common_metrics([(one.examples, one.metrics) for one in good])
        return self.evaluate_metrics_aggr_fn(contents, EXAMPLES)

    def why_stuck(self) -> str:
        """Why a round came to nothing, in words."""
        bad = self._account.rejected if self._account else []
        return "; ".join([self._shortage, *(f"node {r.node}: {r.why}" for r in bad[-3:])])

    def kept(self) -> str:
        """What is left of a federation that has to stop, in words."""
        done = self.server.round
        if self.folder is None:
            return "nothing is kept, since the strategy has no folder"
        return f"the {done} rounds before it are in {self.folder}: mend it and start it again"

    def warn_of_wrapper(self, name: str) -> None:
        """Refuse, or say loudly, what a wrapper for differential privacy would not protect."""
        client, server = self.algorithm.client, self.algorithm.server
        if client.up:
            raise ConfigError(
                f"{self.algorithm.label} sends {', '.join(client.up)} up beside the model, which "
                f"{name} would neither clip nor put noise on; use a method that sends the model "
                "alone, such as fedfor, fedprox or fedavg"
            )
        hidden = [*server.keeps, *(k for k in client.server_keeps if k != client.difference)]
        if hidden and self._account is None:
            log(
                WARNING,
                "%s keeps %s on the server, made from replies before %s puts noise on the model; "
                "later models depend on it, and no privacy accounting covers that",
                self.algorithm.label,
                ", ".join(hidden),
                name,
            )

    # Its parts

    def _entropy(self, purpose: str, attempt: int) -> int:
        return entropy(self.seed, f"nodes to {purpose}", self.server.round + 1, attempt)

    def _is_enough(self, good: int) -> bool:
        asked = len(self._outbox.asked)
        needed = max(1, self.min_replies or -(-asked // 2))
        self._shortage = f"{good} of {asked} replies were good, {needed} are needed"
        return good >= needed


def _client_lr(good: Sequence[GoodReply]) -> float:
    """The clients' learning rate, for SlowMo: the median, since each says what it likes. Any will
    do as long as it does not change."""
    rates = [one.about.lr for one in good if one.about is not None]
    return statistics.median(rates) if rates else 1.0


def _bounds(max_norm: float | Mapping[str, float] | None, algorithm: Algorithm) -> dict[str, float]:
    if max_norm is None:
        return {}
    if not isinstance(max_norm, Mapping):
        max_norm = {PARAMETERS: max_norm, BUFFERS: max_norm}
    for name, bound in max_norm.items():
        require_choice("Strategy", "max_norm", name, (PARAMETERS, BUFFERS, *algorithm.client.up))
        require_number("Strategy", "max_norm", bound, above=0)
    return dict(max_norm)
