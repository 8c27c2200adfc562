"""Replies that cannot be used: named, counted, left out; and what becomes of the round."""

import logging
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedfor
from fedfor.data.population import Partition
from fedfor.errors import ConfigError
from fedfor.flower import FederationError, Strategy
from fedfor.flower.records import WireError, tensor_of

from .app import SEED, TRAINING, client_app, new_model, population
from .grid import InProcessGrid

CLIENTS = 5


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


def late(reply: Message) -> Message:
    reply.content["fedfor"] = ConfigRecord({**reply.content["fedfor"], "round": 7})  # type: ignore[dict-item]
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
    far_away: r"its update has a norm of .*, more than 100",
    two_records: "it holds 2 ArrayRecords, expected one",
    no_metrics: "it holds 0 MetricRecords, expected one",
    no_examples: "'num-examples' is 0, expected a whole number from 1 on",
    late: r"it answers round 7, not \d",
    error: "error in its place: out of memory",
}


def strategy_for(nodes: int, **options: object) -> Strategy:
    given = {"min_available_nodes": nodes, "min_train_nodes": nodes, "fraction_evaluate": 0}
    return Strategy("fedfor", new_model(), **(given | options))  # type: ignore[arg-type]


def simulated_without_the_last(rounds: int) -> dict[str, torch.Tensor]:
    people = population(CLIENTS)
    others = Partition(people.split, [people.rows(k) for k in range(CLIENTS - 1)])
    history = fedfor.simulate(
        "fedfor",
        others,
        new_model(),
        rounds=rounds,
        cohort=CLIENTS - 1,
        seed=SEED,
        training=TRAINING,
        engine="serial",
    )
    return history.model.state_dict()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_bad_reply_is_named_and_left_out(fault: object, caplog: pytest.LogCaptureFixture) -> None:
    bad = 100 + CLIENTS - 1
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = lambda node, reply: fault(reply) if node == bad else reply  # type: ignore[operator]
    strategy = strategy_for(CLIENTS, max_norm=100)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        got = strategy.start(grid, num_rounds=2).arrays.to_torch_state_dict()
    for name, tensor in simulated_without_the_last(2).items():
        assert torch.equal(got[name], tensor)
    for record in strategy.records:
        assert record["clients"] == CLIENTS - 1
        assert [r["node"] for r in record["rejected"]] == [str(bad)]
        assert re.fullmatch(FAULTS[fault], record["rejected"][0]["why"])  # type: ignore[index]
    assert f"Rejected the reply of node {bad}" in caplog.text


def test_a_node_that_does_not_answer_is_named() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = lambda node, reply: None if node == 104 else reply
    strategy = strategy_for(CLIENTS)
    got = strategy.start(grid, num_rounds=2).arrays.to_torch_state_dict()
    for name, tensor in simulated_without_the_last(2).items():
        assert torch.equal(got[name], tensor)
    assert strategy.records[0]["rejected"] == [{"node": "104", "why": "no answer in time"}]


def test_what_the_superlink_says_of_a_lost_node_is_told_of_that_node() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)

    def gone(node: int, reply: Message) -> Message:
        if node != 104:
            return reply
        told = Message(Error(code=5, reason="Node Unavailable"), reply_to=reply)
        told.metadata.__dict__["_src_node_id"] = 1  # the SuperLink's own
        told.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
        return told

    grid.tamper = gone
    strategy = strategy_for(CLIENTS)
    strategy.start(grid, num_rounds=1)
    why = "error in its place: Node Unavailable"
    assert strategy.records[0]["rejected"] == [{"node": "104", "why": why}]


def test_too_few_good_replies_are_tried_again() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    calls = 0

    def broken_at_first(node: int, reply: Message) -> Message:
        nonlocal calls
        calls += 1
        return with_nan(reply) if calls <= 3 else reply  # three of five, in the first attempt

    grid.tamper = broken_at_first
    strategy = strategy_for(CLIENTS)
    strategy.start(grid, num_rounds=1)
    (record,) = strategy.records
    assert record["attempts"] == 2
    assert len(record["rejected"]) == 3
    assert record["clients"] == CLIENTS
    model = sum(t.numel() * t.element_size() for t in strategy.server.model.values())
    assert record["down_cross_device"] == 2 * CLIENTS * model  # what was really sent


def test_a_run_that_cannot_go_on_stops_with_its_checkpoint(tmp_path: Path) -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    calls = 0

    def broken_later(node: int, reply: Message) -> Message:
        nonlocal calls
        calls += 1
        return with_nan(reply) if calls > 2 * CLIENTS else reply

    grid.tamper = broken_later
    strategy = strategy_for(CLIENTS, folder=tmp_path / "run", retries=1)
    sentence = (
        r"round 3 had too few good replies in 2 attempts \(.*node 10\d: model: NaN or inf.*\); "
        r"the 2 rounds before it are in .*run: mend the clients and start it again"
    )
    with pytest.raises(FederationError, match=sentence):
        strategy.start(grid, num_rounds=4)
    healthy = InProcessGrid(client_app(CLIENTS), CLIENTS)
    again = strategy_for(CLIENTS, folder=tmp_path / "run")
    got = again.start(healthy, num_rounds=4).arrays.to_torch_state_dict()
    whole = strategy_for(CLIENTS)
    never = whole.start(InProcessGrid(client_app(CLIENTS), CLIENTS), num_rounds=4).arrays
    for name, tensor in never.to_torch_state_dict().items():
        assert torch.equal(got[name], tensor)
    assert len(healthy.asked) == 2 * CLIENTS


def test_settings_that_cannot_be_get_a_sentence() -> None:
    for options in ({"form": "silo"}, {"min_replies": 0}, {"max_norm": -1}, {"fraction_train": 0}):
        with pytest.raises(ConfigError, match=f"Strategy: {next(iter(options))}"):
            strategy_for(2, **options)  # type: ignore[arg-type]


def test_numpy_headers_are_not_believed() -> None:
    """A header that claims more than was sent must not make us allocate it."""
    good = Array(np.zeros(4, np.float32))
    header = good.data.replace(b"(4,)", b"(10000000000000,)").replace(b"  \n", b"\n")
    assert torch.equal(tensor_of("w", good), torch.zeros(4))
    for data in (header, good.data[:20], b"", b"\x93NUMPY", b"PK\x03\x04" + bytes(40)):
        with pytest.raises(WireError, match="'w'"):
            tensor_of("w", Array("float32", (4,), "numpy.ndarray", data))
    with pytest.raises(WireError, match="stored as"):
        tensor_of("w", Array("float32", (4,), "pickle", good.data))


def test_arrays_of_other_machines_are_read() -> None:
    for values in (
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.array(3, np.int64),
        np.zeros((0, 2), np.float32),
    ):
        assert np.array_equal(tensor_of("w", Array(values)).numpy(), values)


# Fuzzed replies

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
ARRAY_RECORDS = st.dictionaries(st.sampled_from([*PARAMETERS, "x", "direction/x"]), ARRAYS)
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
