"""Replies made of anything by hypothesis: nothing crashes, and nothing moves the model."""

import math

import numpy as np
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedfor.flower import Strategy

from .app import client_app, new_model
from .grid import InProcessGrid

NAMES = ["arrays", "metrics", "fedfor", "config", "x", ""]
KEYS = st.sampled_from(
    ["num-examples", "round", "steps", "lr", "client", "state-bytes", "name", ""]
)
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.sampled_from([0, 1, -1, 5]))
ARRAYS = st.one_of(
    st.builds(
        Array,
        st.sampled_from(["float32", "object", "complex64", "", "int8"]),
        st.tuples(st.integers(-2, 2**31 - 1)),
        st.sampled_from(["numpy.ndarray", "x"]),
        st.binary(max_size=200),
    ),
    st.sampled_from(
        [
            Array(np.zeros((2, 2), np.complex64)),
            Array(np.zeros(3, np.float16)),
            Array(np.full(3, np.nan)),
            Array(np.zeros((), np.bool_)),
            Array(np.zeros(3, np.uint64)),
            Array(np.zeros(3, "datetime64[s]")),
        ]
    ),
)
PARAMETERS = list(new_model().state_dict())
BROKEN = [
    Array(torch.full_like(t, x))
    for t in new_model().state_dict().values()
    for x in (math.inf, math.nan)
]
ARRAY_RECORDS = st.dictionaries(
    st.sampled_from([*PARAMETERS, "x", "direction/x"]), ARRAYS | st.sampled_from(BROKEN)
)
METRICS = st.dictionaries(KEYS, st.one_of(NUMBERS, st.lists(st.floats(), max_size=3)))
CONFIGS = st.dictionaries(
    KEYS, st.one_of(NUMBERS, st.text(max_size=9), st.booleans(), st.binary(max_size=9))
)
RECORDS = st.one_of(
    ARRAY_RECORDS.map(ArrayRecord), METRICS.map(MetricRecord), CONFIGS.map(ConfigRecord)
)
CONTENTS = st.dictionaries(st.sampled_from(NAMES), RECORDS).map(RecordDict)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(CONTENTS, st.booleans())
def test_fuzzed_replies_change_nothing(content: RecordDict, around_a_good_one: bool) -> None:
    """Whatever one node sends, nothing crashes and the others' model stands."""
    grid = InProcessGrid(remembering, 2)

    def fuzz(node: int, reply: Message) -> Message:
        if node != 101:
            return reply
        records = dict(content)
        if around_a_good_one:  # a sound reply with parts of it replaced
            records = {**dict(reply.content), **records}
        return Message(RecordDict(records), reply_to=_question(reply))

    grid.tamper = fuzz
    strategy = Strategy("fedfor", new_model(), min_replies=1)
    got = strategy.start(grid, num_rounds=1).arrays.to_torch_state_dict()
    (record,) = strategy.records
    if record["clients"] == 1:
        assert [r["node"] for r in record["rejected"]] == ["101"]
        assert 0 <= record["accuracy"] <= 1
        assert all(torch.equal(got[n], t) for n, t in ALONE.items())
    else:  # only what the server does not read was replaced
        assert around_a_good_one
        assert all(torch.equal(got[n], t) for n, t in BOTH.items())


CLIENT = client_app(2)
ANSWERS: dict[tuple[int, str], RecordDict] = {}


def remembering(message: Message, context: Context) -> Message:
    """The client's first answer again: all examples have the same round."""
    key = (context.node_id, message.metadata.message_type)
    if key not in ANSWERS:
        ANSWERS[key] = CLIENT(message, context).content
    return Message(RecordDict(dict(ANSWERS[key])), reply_to=message)


def _question(reply: Message) -> Message:
    """A message whose reply has the metadata of this one."""
    asked = Message(RecordDict(), reply.metadata.src_node_id, reply.metadata.message_type)
    asked.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return asked


def _model_of(nodes: set[int]) -> dict[str, torch.Tensor]:
    grid = InProcessGrid(client_app(2), 2)
    grid.tamper = lambda node, reply: reply if node in nodes else None
    strategy = Strategy("fedfor", new_model(), min_replies=1)
    return strategy.start(grid, num_rounds=1).arrays.to_torch_state_dict()


ALONE, BOTH = _model_of({100}), _model_of({100, 101})
