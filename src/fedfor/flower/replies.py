"""What clients answer, looked at before it is believed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from torch import Tensor

from .. import protocol
from ..algorithms import Algorithm
from ..algorithms.fedavg import FedAvg
from ..protocol import Reply
from .receive import NEEDS_MODEL, NeedsModelError
from .records import WireError, from_record
from .wire import ABOUT, EXAMPLES, METRICS, About, parted

LONGEST = 300
PARAMETERS, BUFFERS = "parameters", "buffers"


class BadReplyError(Exception):
    """A reply that cannot be used; the text says why."""

    @property
    def why(self) -> str:
        """For logs and records: names and reasons in it may be anybody's, and of any length."""
        words = " ".join(str(self).split())
        return "".join(c if c.isprintable() else "?" for c in words)[:LONGEST]


@dataclass(frozen=True)
class GoodReply:
    node: int
    reply: Reply
    about: About | None
    """None from a client that does not use fedfor's client side, as it need not for FedAvg."""
    metrics: MetricRecord
    message: Message

    def norm(self, what: str, sent: protocol.Message) -> float:
        """How far its parameters or its buffers are from those sent; or how long an extra is."""
        if what in self.reply.extras:
            return _length(self.reply.extras[what].values())
        start = sent.params if what == PARAMETERS else sent.buffers
        moved = ((self.reply.model[n], t) for n, t in start.items() if t.is_floating_point())
        return _length(torch.where(end == t, torch.zeros_like(t), end - t) for end, t in moved)


@dataclass(frozen=True)
class Rejected:
    node: int
    why: str


def needs_model(message: Message) -> bool:
    """Whether a client says that it has not got the model that a difference belongs to."""
    if message.has_error():  # from a loop of one's own, where it can only be raised
        return NeedsModelError.__name__ in str(message.error.reason)
    about = message.content.config_records.get(ABOUT)
    return about is not None and about.get(NEEDS_MODEL) is True


def read_reply(
    message: Message,
    node: int,
    sent: protocol.Message,
    algorithm: Algorithm,
    longest: Mapping[str, float],
) -> GoodReply:
    """The reply in a message, or a BadReplyError with the reason why there is none."""
    content, up = content_of(message), algorithm.client.up
    examples = _examples(content)
    about = _about(content, sent.round)
    if about is None and not isinstance(algorithm.client, FedAvg):
        raise BadReplyError(
            f"it was trained without {algorithm.client.name}: the client uses neither "
            "fedfor.flower.train nor LocalRound"
        )
    records = list(content.array_records.values())
    if len(records) != 1:
        raise BadReplyError(f"it holds {len(records)} ArrayRecords, expected one")
    try:
        model, extras = parted(from_record(records[0]), up)
    except WireError as error:
        raise BadReplyError(str(error)) from error
    steps = about.steps if about else 1
    if misfit := Reply(model, extras, examples, steps).misfit(sent, up):
        raise BadReplyError(misfit)
    like = sent.model
    reply = Reply(
        {n: _as(n, t, like[n]) for n, t in model.items()},
        {e: {n: _as(f"{e}/{n}", t, like[n]) for n, t in ts.items()} for e, ts in extras.items()},
        examples,
        steps,
    )
    if broken := reply.not_finite(sent):
        raise BadReplyError(broken)
    metrics = next(iter(content.metric_records.values()))
    good = GoodReply(node, reply, about, metrics, message)
    for what, most in longest.items():
        if (norm := good.norm(what, sent)) > most:
            raise BadReplyError(f"{what}: a change of norm {norm:.4g}, more than {most:g}")
    return good


def content_of(message: Message) -> RecordDict:
    if message.has_error():
        raise BadReplyError(f"error in its place: {message.error.reason or 'no reason given'}")
    if not message.has_content():
        raise BadReplyError("it is empty")
    if len(message.content.metric_records) != 1:
        count = len(message.content.metric_records)
        raise BadReplyError(f"it holds {count} MetricRecords, expected one")
    return message.content


def _examples(content: RecordDict) -> int:
    given = next(iter(content.metric_records.values())).get(EXAMPLES)
    count = _number(given)
    if count is None or not 1 <= count <= MOST or count != int(count):
        raise BadReplyError(f"'{EXAMPLES}' is {given!r:.40}, expected a whole number from 1 on")
    return int(count)


def _about(content: RecordDict, number: int) -> About | None:
    record = content.config_records.get(ABOUT)
    if record is None:
        return None
    whole: dict[str, int] = {}
    for key in ("round", "steps", "client", "state-bytes"):
        value = record.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < -1:
            raise BadReplyError(f"'{key}' of '{ABOUT}' is {value!r:.40}, expected a whole number")
        whole[key] = value
    lr = _number(record.get("lr"))
    if lr is None or lr <= 0:
        raise BadReplyError(f"'lr' of '{ABOUT}' is {record.get('lr')!r:.40}, not a number above 0")
    about = About(whole["round"], whole["steps"], lr, whole["client"], whole["state-bytes"])
    if about.round != number:
        raise BadReplyError(f"it answers round {about.round}, not {number}")
    if about.steps < 1 or about.state_bytes < 0:
        raise BadReplyError(f"{about.steps} steps and {about.state_bytes} bytes of state cannot be")
    return about


MOST = 2**53
"""Above it float64 leaves out whole numbers, and no client has as many examples."""


def _number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return value if abs(value) <= MOST else None
    return value if math.isfinite(value) else None


def _as(name: str, got: Tensor, like: Tensor) -> Tensor:
    """In the model's own type. Wrappers may have made float64 of it, and even of whole numbers."""
    if like.is_floating_point() and not got.is_floating_point():
        kind = str(got.dtype).removeprefix("torch.")
        raise BadReplyError(f"'{name}' holds {kind}, expected {like.dtype}")
    if got.is_floating_point() and not like.is_floating_point():
        if not bool(torch.isfinite(got).all()):
            raise BadReplyError(f"NaN or infinity in '{name}'")
        got = got.round()
    return got.to(like.device, like.dtype)


def _length(tensors: Iterable[Tensor]) -> float:
    lengths = [torch.linalg.vector_norm(t.double()) for t in tensors]
    return float(torch.linalg.vector_norm(torch.stack(lengths))) if lengths else 0.0


def in_order(replies: Sequence[GoodReply]) -> list[GoodReply]:
    """By the clients' numbers, as the simulator sums them, whoever was first to answer."""
    return sorted(replies, key=lambda r: (r.about.client if r.about else -1, r.node))


def common_metrics(contents: Sequence[tuple[int, MetricRecord]]) -> list[RecordDict]:
    """The metrics that all have, so that Flower's functions can aggregate them."""
    shared = set.intersection(*(set(record) for _, record in contents)) if contents else set()
    usable = {key for key in shared if _alike([record[key] for _, record in contents])}
    return [
        RecordDict(
            {
                METRICS: MetricRecord(
                    {EXAMPLES: count, **{k: record[k] for k in record if k in usable - {EXAMPLES}}}
                )
            }
        )
        for count, record in contents
    ]


def _alike(values: Sequence[object]) -> bool:
    """Whether all are numbers, or lists of as many numbers."""
    lists = [value for value in values if isinstance(value, list)]
    if not lists:
        return all(_number(value) is not None for value in values)
    same = len(lists) == len(values) and len({len(one) for one in lists}) == 1
    return same and all(_number(x) is not None for one in lists for x in one)


@dataclass(frozen=True)
class Tested:
    """What a client said of the model."""

    node: int
    examples: int
    metrics: MetricRecord
    name: str


def read_test(message: Message, node: int) -> Tested:
    content = content_of(message)
    metrics = next(iter(content.metric_records.values()))
    about: Mapping[str, object] = content.config_records.get(ABOUT, ConfigRecord())
    for key in ("accuracy", "loss"):
        value = _number(metrics.get(key, 0.0))
        if value is None or (key == "accuracy" and not 0 <= value <= 1):
            raise BadReplyError(f"its {key} is {metrics[key]!r:.40}")
    name = about.get("name")
    return Tested(
        node, _examples(content), metrics, name[:LONGEST] if isinstance(name, str) else ""
    )
