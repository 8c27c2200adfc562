"""Any ClientOpt x ServerOpt x Sharing as a strategy on Flower's Message API."""

import random
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import get_args

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes
from flwr.supercore import log
from torch import nn

from .. import protocol
from ..algorithms import Algorithm, ClientOpt, settings
from ..errors import ConfigError, require_choice, require_number, require_whole
from ..protocol import Server
from ..randomness import entropy
from ..tensors import Extras, Tensors
from .account import Account, Record, scores
from .outbox import Form, Outbox
from .records import WireError, from_record, to_record
from .replies import (
    BadReplyError,
    GoodReply,
    Rejected,
    Tested,
    common_metrics,
    in_order,
    needs_model,
    read_reply,
    read_test,
)
from .wire import ARRAYS, EXAMPLES

NO_ANSWER = "no answer in time"

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
    - `max_norm`: replies whose update is longer are rejected.
    - `min_replies`: good replies that a round needs; by default half of the nodes asked.
    - `retries`: how often a round with too few is tried again before the run stops.
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
        max_norm: float | None = None,
        min_replies: int | None = None,
        retries: int = 2,
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
        require_number("Strategy", "fraction_train", fraction_train, above=0)
        for name, value in (("population", population), ("min_replies", min_replies)):
            if value is not None:
                require_whole("Strategy", name, value)
        require_whole("Strategy", "checkpoint_every", checkpoint_every)
        require_number("Strategy", "retries", retries, least=0)
        if max_norm is not None:
            require_number("Strategy", "max_norm", max_norm, above=0)
        self.folder = None if folder is None else Path(folder)
        self.form, self.max_norm, self.seed = form, max_norm, seed
        self.min_replies, self.retries = min_replies, retries
        self.checkpoint_every = checkpoint_every
        self.server = Server(algorithm, model, population or 1)
        self.algorithm = self.server.algorithm
        self.records: list[Record] = []
        """What is known of each round that is done, as in the simulator's rounds.jsonl."""
        self.in_our_loop = False
        self._population_known = population is not None
        self._given: ArrayRecord | None = None
        self._before: Tensors = {}
        self._outbox = Outbox(self.algorithm, form, self.configrecord_key)
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
        log(INFO, "\t│\t├── Longest update: %s", self.max_norm or "any")
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
        nodes, total = self._sample(
            grid, "train", self._account.attempts, self.fraction_train, self.min_train_nodes
        )
        log(INFO, "configure_train: Sampled %s nodes (out of %s)", len(nodes), total)
        if not self._population_known:
            self.server.population, self._population_known = total, True
        told = ConfigRecord({**config, "server-round": server_round})
        messages = self._outbox.train(sent, nodes, told)
        self._account.went_down(messages, self._outbox.has_last_model)
        return messages

    def whole_models(self, replies: Sequence[Message]) -> list[Message]:
        """Messages for those clients that have lost the model a difference belongs to."""
        nodes = [self._outbox.node_of(r) for r in replies if needs_model(r)]
        if not nodes or self._account is None:
            return []
        for node in nodes:
            log(INFO, "\t> Node %d has not got the last model and gets all of it", node)
        self._outbox.has_last_model -= set(nodes)
        messages = self._outbox.whole(self._account.sent, nodes)
        self._account.went_down(messages, self._outbox.has_last_model)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self._account is None:
            raise ConfigError("aggregate_train was called before configure_train")
        account, replies = self._account, list(replies)
        account.came_up(replies)
        good, bad = self._read(replies, account.sent)
        self._tell("aggregate_train", len(good), bad)
        account.rejected += bad
        needed = self.min_replies or -(-len(self._outbox.asked) // 2)
        if len(good) < max(1, needed):
            return None, None
        good = in_order(good)
        before, state = dict(self.server.params), self.server.snapshot()
        aggregation = self.server.begin()
        for one in good:
            aggregation.add(one.reply, checked=True)
        disagreement = float(self.server.finish(aggregation, self._lr(good)))
        if not bool(self.server.seems_finite()):
            self.server.load_state(account.sent.round - 1, state)
            log(WARNING, "aggregate_train: the mean of the replies is not finite")
            return None, None
        self._before = before
        self._outbox.used(account.sent, (one.node for one in good))
        self._state_bytes |= {r.node: r.about.state_bytes for r in good if r.about}
        record = account.record(good, self._state_bytes) | {"disagreement": disagreement}
        self.records.append(record)
        metrics = [(one.reply.examples, one.metrics) for one in good]
        return self.arrays(), self.train_metrics_aggr_fn(common_metrics(metrics), EXAMPLES)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.adopt(arrays)
        self._outbox.asked = {}
        if self.fraction_evaluate == 0.0:
            return []
        nodes, total = self._sample(
            grid, "evaluate", 1, self.fraction_evaluate, self.min_evaluate_nodes
        )
        log(INFO, "configure_evaluate: Sampled %s nodes (out of %s)", len(nodes), total)
        told = ConfigRecord({**config, "server-round": server_round})
        return self._outbox.evaluate(self.server.round, self.server.model, nodes, told)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        if not self._outbox.asked:
            return None
        good: list[Tested] = []
        replies = list(replies)
        bad = [Rejected(n, NO_ANSWER) for n in self._outbox.silent(replies)]
        for message in replies:
            node = self._outbox.node_of(message)
            try:
                good.append(read_test(message, node))
            except BadReplyError as error:
                bad.append(Rejected(node, error.why))
        self._tell("aggregate_evaluate", len(good), bad)
        if not good:
            return None
        if self.records:
            self.records[-1].update(scores(good))
        contents = common_metrics([(one.examples, one.metrics) for one in good])
        return self.evaluate_metrics_aggr_fn(contents, EXAMPLES)

    def why_stuck(self) -> str:
        """The latest reason why replies were rejected, in words."""
        bad = self._account.rejected if self._account else []
        return "; ".join(f"node {r.node}: {r.why}" for r in bad[-3:])

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

    def _sample(
        self, grid: Grid, purpose: str, attempt: int, fraction: float, least: int
    ) -> tuple[list[int], int]:
        """Nodes drawn by the seed, once enough are connected; and how many there are."""
        _, connected = sample_nodes(grid, self.min_available_nodes, least)  # waits for them
        count = max(int(len(connected) * fraction), least)
        bits = entropy(self.seed, f"nodes to {purpose}", self.server.round + 1, attempt)
        return sorted(random.Random(bits).sample(sorted(connected), count)), len(connected)

    def _read(
        self, replies: Sequence[Message], sent: protocol.Message
    ) -> tuple[list[GoodReply], list[Rejected]]:
        good: dict[int, GoodReply] = {}
        bad = [Rejected(n, NO_ANSWER) for n in self._outbox.silent(replies)]
        up = self.algorithm.client.up
        for message in replies:
            node = self._outbox.node_of(message)
            try:
                if node not in self._outbox.asked:
                    raise BadReplyError("it was not asked")
                if node in good:
                    raise BadReplyError("it has answered already")
                good[node] = read_reply(message, node, sent, up, self.max_norm)
            except BadReplyError as error:
                bad.append(Rejected(node, error.why))
        return list(good.values()), bad

    def _tell(self, where: str, good: int, bad: Sequence[Rejected]) -> None:
        log(INFO, "%s: Received %s results and %s failures", where, good, len(bad))
        for one in bad:
            log(WARNING, "\t> Rejected the reply of node %d: %s", one.node, one.why)

    def _lr(self, good: Sequence[GoodReply]) -> float:
        """The clients' learning rate, for SlowMo. Any will do as long as it does not change."""
        rates = [one.about.lr for one in good if one.about is not None]
        return sum(rates) / len(rates) if rates else 1.0
