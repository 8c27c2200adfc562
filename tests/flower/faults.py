"""Ways in which a reply can be bad, and what is said of each."""

import math

import numpy as np
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MetricRecord,
)


def changed(reply: Message, **arrays: Array | None) -> Message:
    """The reply with some arrays in place of its own; None leaves one out."""
    kept = {**reply.content.array_records["arrays"], **arrays}
    reply.content["arrays"] = ArrayRecord({n: a for n, a in kept.items() if a is not None})
    return reply


def first(reply: Message) -> tuple[str, torch.Tensor]:
    tensors = reply.content.array_records["arrays"].to_torch_state_dict()
    return next(iter(tensors.items()))


def with_nan(reply: Message) -> Message:
    name, tensor = first(reply)
    tensor = tensor.clone()
    tensor.view(-1)[0] = math.nan
    return changed(reply, **{name: Array(tensor)})


def with_inf_in_float64(reply: Message) -> Message:
    name, tensor = first(reply)
    return changed(reply, **{name: Array(torch.full_like(tensor, 1e300, dtype=torch.float64))})


def of_wrong_shape(reply: Message) -> Message:
    name, tensor = first(reply)
    return changed(reply, **{name: Array(tensor.flatten()[1:])})


def without_one(reply: Message) -> Message:
    return changed(reply, **{first(reply)[0]: None})


def with_one_more(reply: Message) -> Message:
    return changed(reply, surplus=Array(torch.zeros(2)))


def of_text(reply: Message) -> Message:
    return changed(reply, **{first(reply)[0]: Array(np.array(["a", "b"]))})


def of_whole_numbers(reply: Message) -> Message:
    name, tensor = first(reply)
    return changed(reply, **{name: Array(torch.zeros_like(tensor, dtype=torch.int64))})


def cut_short(reply: Message) -> Message:
    name, _ = first(reply)
    array = reply.content.array_records["arrays"][name]
    short = Array(array.dtype, array.shape, array.stype, array.data[:-4])
    return changed(reply, **{name: short})


def far_away(reply: Message) -> Message:
    name, tensor = first(reply)
    return changed(reply, **{name: Array(tensor + 1e6)})


def two_records(reply: Message) -> Message:
    reply.content["more"] = ArrayRecord()
    return reply


def no_metrics(reply: Message) -> Message:
    del reply.content["metrics"]
    return reply


def no_examples(reply: Message) -> Message:
    reply.content["metrics"] = MetricRecord({"num-examples": 0})
    return reply


def too_many_examples(reply: Message) -> Message:
    reply.content["metrics"] = MetricRecord({"num-examples": 1e300})
    return reply


def late(reply: Message) -> Message:
    reply.content["fedfor"] = ConfigRecord({**reply.content["fedfor"], "round": 7})  # type: ignore[dict-item]
    return reply


def of_no_steps(reply: Message) -> Message:
    reply.content["fedfor"] = ConfigRecord({**reply.content["fedfor"], "steps": 0})  # type: ignore[dict-item]
    return reply


def error(reply: Message) -> Message:
    broken = Message(Error(code=2, reason="out of memory"), reply_to=reply)
    broken.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
    return broken


FAULTS = {
    with_nan: r"model: NaN or infinity in '.*'",
    with_inf_in_float64: r"model: NaN or infinity in '.*'",
    of_wrong_shape: r"model: '.*' has shape \(.*\), expected \(.*\)",
    without_one: r"model: '.*' is missing",
    with_one_more: r"model: 'surplus' is not part of the model",
    of_text: r"'.*' holds <U1, which are no numbers of a model",
    of_whole_numbers: r"'.*' holds int64, expected torch.float32",
    cut_short: r"'.*' has \d+ bytes for \(.*\) numbers of float32",
    far_away: r"parameters: a change of norm .*, more than 100",
    two_records: "it holds 2 ArrayRecords, expected one",
    no_metrics: "it holds 0 MetricRecords, expected one",
    no_examples: "'num-examples' is 0, expected a whole number from 1 on",
    too_many_examples: r"'num-examples' is 1e\+300, expected a whole number from 1 on",
    late: r"it answers round 7, not \d",
    of_no_steps: "0 steps and 0 bytes of state cannot be",
    error: "error in its place: out of memory",
}
