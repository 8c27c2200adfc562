"""What goes to which node: that depends on what the node should have already."""

from collections.abc import Iterable
from typing import Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from .. import protocol
from ..algorithms import Algorithm
from ..tensors import Tensors, flatten
from . import silo
from .records import to_record
from .wire import (
    ALGORITHM,
    ARRAYS,
    COUNTED,
    DIFFERENCE,
    EXTRAS,
    FINGERPRINT,
    KEEP,
    ROUND,
    as_text,
)

Form = Literal["cross-device", "cross-silo"]


class Outbox:
    """Writes the messages of a strategy, and knows who was asked."""

    def __init__(self, algorithm: Algorithm, form: Form, config_key: str) -> None:
        self.algorithm, self.form, self.config_key = algorithm, form, config_key
        self.asked: dict[int, Message] = {}
        """By node, since the last time that a round or an evaluation began."""
        self.has_last_model: set[int] = set()
        self._last_model: Tensors = {}
        self._counted: dict[int, int] = {}
        self._config = ConfigRecord()

    def train(
        self, sent: protocol.Message, nodes: Iterable[int], config: ConfigRecord
    ) -> list[Message]:
        """Begin a round, or try it again."""
        in_silos = self.form == "cross-silo" and self.algorithm.client.difference is not None
        self._config = ConfigRecord({**config, **self._about(sent.round), KEEP: in_silos})
        self.asked = {}
        nodes = list(nodes)
        up_to_date = [n for n in nodes if in_silos and n in self.has_last_model]
        messages = self.whole(sent, [n for n in nodes if n not in up_to_date])
        if up_to_date:
            messages += self._send(up_to_date, self._difference(sent), MessageType.TRAIN)
        return messages

    def whole(self, sent: protocol.Message, nodes: Iterable[int]) -> list[Message]:
        """The model and all extras, to nodes that have nothing yet, or have lost it."""
        records: dict[str, Any] = {ARRAYS: to_record(sent.model)}
        if sent.sent:
            records[EXTRAS] = to_record(flatten(sent.sent))
        content = RecordDict({**records, self.config_key: self._config})
        return self._send(nodes, content, MessageType.TRAIN)

    def evaluate(
        self, done: int, model: Tensors, nodes: Iterable[int], config: ConfigRecord
    ) -> list[Message]:
        told = ConfigRecord({**config, **self._about(done)})
        content = RecordDict({ARRAYS: to_record(model), self.config_key: told})
        self.asked = {}
        return self._send(nodes, content, MessageType.EVALUATE)

    def used(self, sent: protocol.Message, nodes: Iterable[int]) -> None:
        """The replies of these nodes to this message have moved the model."""
        self._last_model, self.has_last_model = sent.model, set(nodes)
        self._counted |= dict.fromkeys(self.has_last_model, sent.round)

    def node_of(self, reply: Message) -> int:
        """Who answers. Of a node that is gone, the SuperLink answers in its place."""
        if reply.metadata.src_node_id in self.asked:
            return reply.metadata.src_node_id
        by_id = {m.metadata.message_id: node for node, m in self.asked.items()}
        return by_id.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)

    def silent(self, replies: Iterable[Message]) -> list[int]:
        """Nodes that were asked and did not answer."""
        return sorted(self.asked.keys() - {self.node_of(r) for r in replies})

    def _about(self, number: int) -> dict[str, Any]:
        return {ROUND: number, ALGORITHM: as_text(self.algorithm)}

    def _difference(self, sent: protocol.Message) -> RecordDict:
        others = {e: ts for e, ts in sent.sent.items() if e != sent.difference}
        records: dict[str, Any] = {
            ARRAYS: ArrayRecord(),  # so that no mod takes the difference for the model
            DIFFERENCE: to_record(silo.difference(self._last_model, sent.model)),
        }
        if others:
            records[EXTRAS] = to_record(flatten(others))
        told = {**self._config, FINGERPRINT: silo.fingerprint(sent.model)}
        return RecordDict({**records, self.config_key: ConfigRecord(told)})

    def _send(self, nodes: Iterable[int], content: RecordDict, kind: str) -> list[Message]:
        messages = [Message(self._for_node(n, content), n, kind) for n in nodes]
        self.asked |= {m.metadata.dst_node_id: m for m in messages}
        return messages

    def _for_node(self, node: int, content: RecordDict) -> RecordDict:
        """Clients that keep state must know which of it stands."""
        if self.algorithm.stateless:
            return content
        told = {**content.config_records[self.config_key], COUNTED: self._counted.get(node, 0)}
        return RecordDict({**content, self.config_key: ConfigRecord(told)})
