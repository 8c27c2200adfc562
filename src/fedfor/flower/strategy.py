"""Any ClientOpt x ServerOpt x Sharing as a strategy on Flower's Message API."""

import random
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, Literal, get_args

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes
from flwr.supercore import log
from torch import nn

from ..algorithms import Algorithm, ClientOpt, settings
from ..errors import ConfigError, require_choice, require_number, require_whole
from ..protocol import Server
from ..randomness import entropy
from ..tensors import Extras, Tensors, flatten
from . import silo
from .account import Account, Record, scores
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
from .wire import (
    ALGORITHM,
    ARRAYS,
    COUNTED,
    DIFFERENCE,
    EXAMPLES,
    EXTRAS,
    FINGERPRINT,
    KEEP,
    ROUND,
    as_text,
)

NO_ANSWER = "no answer in time"

Form = Literal["cross-device", "cross-silo"]
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
        self._last_model: Tensors = {}
        self._has_last_model: set[int] = set()
        self._counted: dict[int, int] = {}
        self._asked: dict[int, Message] = {}
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
        self._config = ConfigRecord({**config, "server-round": server_round, **self._keys()})
        whole = [n for n in nodes if self.form == "cross-device" or not self._can_have(n)]
        messages = self._messages(whole, self._whole_content())
        if len(whole) < len(nodes):
            rest = [n for n in nodes if n not in whole]
            messages += self._messages(rest, self._difference_content())
        self._asked = {}
        return self._sends(messages)

    def whole_models(self, replies: Sequence[Message]) -> list[Message]:
        """Messages for those clients that have lost the model a difference belongs to."""
        nodes = [self._node_of(r) for r in replies if needs_model(r)]
        for node in nodes:
            log(INFO, "\t> Node %d has not got the last model and gets all of it", node)
        self._has_last_model -= set(nodes)
        return self._sends(self._messages(nodes, self._whole_content())) if nodes else []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self._account is None:
            raise ConfigError("aggregate_train was called before configure_train")
        account, replies = self._account, list(replies)
        account.came_up(replies)
        good, bad = self._read(replies)
        bad += [Rejected(n, NO_ANSWER) for n in self._silent(replies)]
        self._tell("aggregate_train", len(good), bad)
        account.rejected += bad
        needed = self.min_replies or -(-len(self._asked) // 2)
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
        self._before, self._last_model = before, account.sent.model
        self._has_last_model = {one.node for one in good}
        self._counted |= dict.fromkeys(self._has_last_model, account.sent.round)
        self._state_bytes |= {r.node: r.about.state_bytes for r in good if r.about}
        record = account.record(good, self._state_bytes) | {"disagreement": disagreement}
        self.records.append(record)
        metrics = [(one.reply.examples, one.metrics) for one in good]
        return self.arrays(), self.train_metrics_aggr_fn(common_metrics(metrics), EXAMPLES)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.adopt(arrays)
        self._asked = {}
        if self.fraction_evaluate == 0.0:
            return []
        nodes, total = self._sample(
            grid, "evaluate", 1, self.fraction_evaluate, self.min_evaluate_nodes
        )
        log(INFO, "configure_evaluate: Sampled %s nodes (out of %s)", len(nodes), total)
        keys: dict[str, Any] = {ROUND: self.server.round, ALGORITHM: self._text}
        content = RecordDict(
            {
                ARRAYS: to_record(self.server.model),
                self.configrecord_key: ConfigRecord(
                    {**config, "server-round": server_round, **keys}
                ),
            }
        )
        messages = self._messages(nodes, content, MessageType.EVALUATE)
        self._asked = {m.metadata.dst_node_id: m for m in messages}
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        if not self._asked:
            return None
        good: list[Tested] = []
        replies = list(replies)
        bad = [Rejected(n, NO_ANSWER) for n in self._silent(replies)]
        for message in replies:
            node = self._node_of(message)
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

    @property
    def _text(self) -> str:
        return as_text(self.algorithm)

    def _keys(self) -> dict[str, Any]:
        keeps = self.form == "cross-silo" and self.algorithm.client.difference is not None
        return {ROUND: self.server.round + 1, ALGORITHM: self._text, KEEP: keeps}

    def _can_have(self, node: int) -> bool:
        """Whether a node should still have the model before this one."""
        return self.algorithm.client.difference is not None and node in self._has_last_model

    def _whole_content(self) -> RecordDict:
        assert self._account is not None
        sent = self._account.sent
        records: dict[str, Any] = {ARRAYS: to_record(sent.model)}
        if sent.sent:
            records[EXTRAS] = to_record(flatten(sent.sent))
        return RecordDict({**records, self.configrecord_key: self._config})

    def _difference_content(self) -> RecordDict:
        assert self._account is not None
        sent = self._account.sent
        others = {e: ts for e, ts in sent.sent.items() if e != sent.difference}
        records: dict[str, Any] = {
            ARRAYS: ArrayRecord(),  # so that no mod takes the difference for the model
            DIFFERENCE: to_record(silo.difference(self._last_model, sent.model)),
        }
        if others:
            records[EXTRAS] = to_record(flatten(others))
        told = {**self._config, FINGERPRINT: silo.fingerprint(sent.model)}
        return RecordDict({**records, self.configrecord_key: ConfigRecord(told)})

    def _messages(
        self, nodes: Iterable[int], content: RecordDict, kind: str = MessageType.TRAIN
    ) -> list[Message]:
        return [Message(self._for_node(n, content), n, kind) for n in nodes]

    def _for_node(self, node: int, content: RecordDict) -> RecordDict:
        """Clients that keep state must know which of it stands."""
        if self.algorithm.stateless:
            return content
        told = {**content.config_records[self.configrecord_key]}
        config = ConfigRecord({**told, COUNTED: self._counted.get(node, 0)})
        return RecordDict({**content, self.configrecord_key: config})

    def _sends(self, messages: list[Message]) -> list[Message]:
        assert self._account is not None
        self._account.went_down(messages, self._has_last_model)
        self._asked |= {m.metadata.dst_node_id: m for m in messages}
        return messages

    def _sample(
        self, grid: Grid, purpose: str, attempt: int, fraction: float, least: int
    ) -> tuple[list[int], int]:
        """Nodes drawn by the seed, once enough are connected; and how many there are."""
        _, connected = sample_nodes(grid, self.min_available_nodes, least)  # waits for them
        count = max(int(len(connected) * fraction), least)
        bits = entropy(self.seed, f"nodes to {purpose}", self.server.round + 1, attempt)
        return sorted(random.Random(bits).sample(sorted(connected), count)), len(connected)

    def _node_of(self, reply: Message) -> int:
        """Who answers. Of a node that is gone, the SuperLink answers in its place."""
        if reply.metadata.src_node_id in self._asked:
            return reply.metadata.src_node_id
        by_id = {m.metadata.message_id: node for node, m in self._asked.items()}
        return by_id.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)

    def _silent(self, replies: Iterable[Message]) -> list[int]:
        return sorted(self._asked.keys() - {self._node_of(r) for r in replies})

    def _read(self, replies: Iterable[Message]) -> tuple[list[GoodReply], list[Rejected]]:
        assert self._account is not None
        good: dict[int, GoodReply] = {}
        bad: list[Rejected] = []
        up = self.algorithm.client.up
        for message in replies:
            node = self._node_of(message)
            try:
                if node not in self._asked:
                    raise BadReplyError("it was not asked")
                if node in good:
                    raise BadReplyError("it has answered already")
                good[node] = read_reply(message, node, self._account.sent, up, self.max_norm)
            except BadReplyError as error:
                bad.append(Rejected(node, error.why))
        return list(good.values()), bad

    def _tell(self, where: str, good: int, bad: Sequence[Rejected]) -> None:
        log(INFO, "%s: Received %s results and %s failures", where, good, len(bad))
        for one in bad:
            log(WARNING, "\t> Rejected the reply of node %d: %s", one.node, one.why)

    def _lr(self, good: Sequence[GoodReply]) -> float:
        """The clients' learning rate, for ServerOpts that want it."""
        rates = [one.about.lr for one in good if one.about is not None]
        return sum(rates) / len(rates) if rates else 1.0
