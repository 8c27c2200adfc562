"""A round as the simulator's records tell it, from the messages that really went."""

from collections.abc import Iterable, Sequence
from typing import Any

from flwr.app import Message, RecordDict
from flwr.common.serde import recorddict_to_proto

from .. import protocol
from ..tensors import extras_nbytes, nbytes
from .records import nbytes_sent
from .replies import GoodReply, Rejected, Tested

Record = dict[str, Any]


class Account:
    """What happens in one round, over all its attempts."""

    def __init__(self, sent: protocol.Message, in_silos: bool) -> None:
        self.sent, self.in_silos = sent, in_silos
        self.attempts = 0
        self.rejected: list[Rejected] = []
        self._down = self._down_otherwise = self._wire_down = self._wire_up = 0

    def went_down(self, messages: Iterable[Message], has_last_model: set[int]) -> None:
        for message in messages:
            self._down += nbytes_sent(message.content.array_records)
            self._wire_down += _wire_bytes(message.content)
            has_it = message.metadata.dst_node_id in has_last_model
            in_silo = self.sent.silo_nbytes if has_it else self.sent.nbytes
            self._down_otherwise += self.sent.nbytes if self.in_silos else in_silo

    def came_up(self, replies: Iterable[Message]) -> None:
        self._wire_up += sum(_wire_bytes(r.content) for r in replies if r.has_content())

    def record(self, good: Sequence[GoodReply], state: dict[int, int]) -> Record:
        told = [r.about for r in good if r.about is not None]
        device, silo = self._down, self._down_otherwise
        if self.in_silos:
            device, silo = silo, device
        record: Record = {
            "round": self.sent.round,
            "clients": len(good),
            "up": sum(nbytes(r.reply.model) + extras_nbytes(r.reply.extras) for r in good),
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
    """As the simulator counts: all sets alike. Empty where clients tell no accuracy."""
    record: Record = {}
    for key in ("accuracy", "loss"):
        values = [t.metrics.get(key) for t in tests]
        if values and all(isinstance(v, (int, float)) for v in values):
            record[key] = sum(values) / len(values)  # type: ignore[arg-type]
    if "accuracy" in record and len({t.name for t in tests}) == len(tests) > 1:
        ordered = sorted(tests, key=lambda t: t.name)
        record["domains"] = {t.name: t.metrics["accuracy"] for t in ordered}
    return record


def _wire_bytes(content: RecordDict) -> int:
    """All of a message's records as Flower packs them: names, types and headers too."""
    arrays = sum(record.count_bytes() for record in content.array_records.values())
    others = {k: r for k, r in content.items() if k not in content.array_records}
    return arrays + int(recorddict_to_proto(RecordDict(others)).ByteSize())
