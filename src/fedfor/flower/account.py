"""A round as the simulator's records tell it, from the messages that really went."""

from collections.abc import Iterable, Sequence
from typing import Any

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.common.serde import recorddict_to_proto

from .. import protocol
from .records import payload
from .replies import GoodReply, Rejected, Tested

Record = dict[str, Any]


class Account:
    """What happens in one round, over all its attempts."""

    def __init__(self, sent: protocol.Message, in_silos: bool) -> None:
        self.sent, self.in_silos = sent, in_silos
        self.attempts = 0
        self.rejected: list[Rejected] = []
        self._down = self._down_otherwise = self._wire_down = self._up = self._wire_up = 0

    def went_down(self, messages: Iterable[Message], has_last_model: set[int]) -> None:
        known: dict[int, tuple[int, int]] = {}  # nodes get the same records: measured once
        for message in messages:
            numbers, packed = _weights(message.content, known)
            self._down += numbers
            self._wire_down += packed
            has_it = message.metadata.dst_node_id in has_last_model
            in_silo = self.sent.silo_nbytes if has_it else self.sent.nbytes
            self._down_otherwise += self.sent.nbytes if self.in_silos else in_silo

    def came_up(self, replies: Iterable[Message]) -> None:
        """All of them: those that are rejected have been sent too."""
        for reply in replies:
            if reply.has_content():
                numbers, packed = _weights(reply.content, {})
                self._up += numbers
                self._wire_up += packed

    def record(self, good: Sequence[GoodReply], state: dict[int, int]) -> Record:
        told = [r.about for r in good if r.about is not None]
        device, silo = self._down, self._down_otherwise
        if self.in_silos:
            device, silo = silo, device
        record: Record = {
            "round": self.sent.round,
            "clients": len(good),
            "up": self._up,
        }
        if len(told) == len(good):
            record["local_steps"] = sum(about.steps for about in told) / len(told)
        losses = [r.metrics.get("train-loss") for r in good]
        if all(isinstance(loss, float) for loss in losses):
            record["train_loss"] = sum(losses) / len(losses)  # type: ignore[arg-type]
        return record | {
            "down_cross_device": device,
            "down_cross_silo": silo,
            "state_bytes": sum(state.values()),
            "clients_with_state": sum(kept > 0 for kept in state.values()),
            "form": "cross-silo" if self.in_silos else "cross-device",
            "wire_down": self._wire_down,
            "wire_up": self._wire_up,
            "attempts": self.attempts,
            "rejected": [{"node": str(r.node), "why": r.why} for r in self.rejected],
        }


def scores(tests: Sequence[Tested]) -> Record:
    """As the simulator counts: all sets alike. Empty where no client tells its accuracy."""
    record: Record = {}
    for key in ("accuracy", "loss"):
        if values := [v for t in tests if isinstance(v := t.metrics.get(key), (int, float))]:
            record[key] = sum(values) / len(values)
    named = {t.name: t.metrics["accuracy"] for t in tests if "accuracy" in t.metrics}
    if len(named) == len(tests) > 1:
        record["domains"] = dict(sorted(named.items()))
    return record


def _weights(content: RecordDict, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The bytes of a message's numbers, and of its records as Flower packs them: names, types and
    headers too."""
    numbers = packed = 0
    for key, record in content.items():
        if id(record) not in known:
            whole = int(recorddict_to_proto(RecordDict({key: record})).ByteSize())
            known[id(record)] = payload(record) if isinstance(record, ArrayRecord) else 0, whole
        numbers, packed = numbers + known[id(record)][0], packed + known[id(record)][1]
    return numbers, packed
