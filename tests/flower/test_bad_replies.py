"""Replies that cannot be used: named, counted, left out; and what becomes of the round."""

import logging
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from torch import nn

import fedfor
from fedfor.data.population import Partition
from fedfor.errors import ConfigError
from fedfor.flower import FederationError, Strategy
from fedfor.flower.records import WireError, tensor_of
from fedfor.flower.replies import BadReplyError, _as

from .app import SEED, TRAINING, client_app, new_model, population
from .faults import FAULTS, changed, first, with_nan
from .grid import InProcessGrid

pytestmark = pytest.mark.fast

CLIENTS = 5


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
        r"round 3: too few good replies in 2 attempts \(0 of 5 replies were good, 3 are needed; "
        r".*node 10\d: model: NaN or inf.*\); the 2 rounds before it are in .*run: mend it and"
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


@pytest.mark.parametrize("fill", [-math.inf, torch.finfo(torch.float32).min])
def test_masks_in_buffers_are_no_trouble(fill: float) -> None:
    """What is infinite in the model from the start, or only in a sum, is no sign of a bad reply."""

    def masked() -> nn.Module:
        model = new_model()
        model.register_buffer("mask", torch.triu(torch.full((3, 3), fill), 1))
        return model

    people, app = population(2), ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        data = people.samples(int(context.node_config["partition-id"]), 1)
        options = {"training": TRAINING, "seed": SEED}
        return fedfor.flower.train(message, context, masked(), data, **options)  # type: ignore[arg-type]

    strategy = Strategy("fedfor", masked(), fraction_evaluate=0, max_norm=100)
    got = strategy.start(InProcessGrid(app, 2), num_rounds=2).arrays.to_torch_state_dict()
    history = fedfor.simulate(
        "fedfor",
        people,
        masked(),
        rounds=2,
        cohort=2,
        seed=SEED,
        training=TRAINING,
        engine="serial",
    )
    assert all(torch.equal(got[n], t) for n, t in history.model.state_dict().items())


def without_the_last(algorithm: str = "fedfor", **options: object) -> dict[str, torch.Tensor]:
    """Two rounds of a federation whose last node never answers."""
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = lambda node, reply: None if node == 104 else reply
    return run_two(grid, algorithm, **options).server.model


def run_two(grid: InProcessGrid, algorithm: str = "fedfor", **options: object) -> Strategy:
    given = {"min_available_nodes": CLIENTS, "min_train_nodes": CLIENTS, "fraction_evaluate": 0}
    strategy = Strategy(algorithm, new_model(), **(given | options))  # type: ignore[arg-type]
    strategy.start(grid, num_rounds=2)
    return strategy


def huge(reply: Message) -> Message:
    arrays = reply.content.array_records["arrays"].to_torch_state_dict()
    return changed(reply, **{n: Array(torch.full_like(t, 3e38)) for n, t in arrays.items()})


def test_who_makes_the_model_infinite_is_left_out() -> None:
    """Each number is finite, but not what FedAdam makes of its square."""
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = lambda node, reply: huge(reply) if node == 104 else reply
    strategy = run_two(grid, "fedadam")
    for record in strategy.records:
        (rejected,) = record["rejected"]
        assert rejected["node"] == "104"
        assert "the model would not be finite" in rejected["why"]
    expected = without_the_last("fedadam")
    assert all(torch.equal(strategy.server.model[n], t) for n, t in expected.items())


def test_a_claimed_learning_rate_does_not_move_the_others() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    plain = run_two(InProcessGrid(client_app(CLIENTS), CLIENTS), "slowmo")

    def claims(node: int, reply: Message) -> Message:
        if node == 104:
            told = {**reply.content["fedfor"], "lr": 1e300}
            reply.content["fedfor"] = ConfigRecord(told)  # type: ignore[arg-type]
        return reply

    grid.tamper = claims
    got = run_two(grid, "slowmo").server.model
    assert all(torch.equal(got[n], t) for n, t in plain.server.model.items())


def test_a_client_without_fedfor_is_not_taken_for_one_with_it() -> None:
    def stock(node: int, reply: Message) -> Message:
        del reply.content["fedfor"]
        return reply

    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = stock
    strategy = run_two(grid, "fedadam")  # whose clients do what FedAvg's do
    assert [r["clients"] for r in strategy.records] == [CLIENTS] * 2
    assert "local_steps" not in strategy.records[0]
    with pytest.raises(FederationError, match="it was trained without fedfor: the client uses"):
        run_two(grid, "fedfor", retries=0)


@pytest.mark.parametrize(
    ("what", "algorithm", "bound"),
    [
        ("running_var", "fedavg", 1e6),
        ("control_change/", "scaffold", {"control_change": 1e9, "parameters": 1e9}),
    ],
)
def test_bounds_for_all_that_goes_up(what: str, algorithm: str, bound: Any) -> None:
    def far(node: int, reply: Message) -> Message:
        record = reply.content.array_records["arrays"]
        name = next(n for n in record if what in n)
        big = torch.full_like(torch.from_numpy(record[name].numpy()), -1e30)
        return changed(reply, **{name: Array(big)}) if node == 104 else reply

    grid = InProcessGrid(client_app(CLIENTS, "cnn-bn"), CLIENTS)
    grid.tamper = far
    strategy = Strategy(
        algorithm,
        new_model("cnn-bn"),
        max_norm=bound,
        min_train_nodes=CLIENTS,
        fraction_evaluate=0,
    )
    strategy.start(grid, num_rounds=1)
    (rejected,) = strategy.records[0]["rejected"]
    assert rejected["node"] == "104"
    assert "a change of norm" in rejected["why"]


def test_a_bound_for_nothing_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match="Strategy: max_norm cannot be 'contrl'"):
        Strategy("scaffold", new_model(), max_norm={"contrl": 1.0})


def test_the_order_of_answers_does_not_matter_and_each_counts_once() -> None:
    plain = run_two(InProcessGrid(client_app(CLIENTS), CLIENTS))
    for rearrange in (
        lambda replies: replies[::-1],
        lambda replies: [*replies, *replies[:2]],
        lambda replies: [*replies, _from_a_stranger(replies[0])],
    ):
        grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
        grid.rearrange = rearrange  # type: ignore[assignment]
        strategy = run_two(grid)
        for name, tensor in plain.server.model.items():
            assert torch.equal(strategy.server.model[name], tensor)
        reasons = {r["why"] for r in strategy.records[0]["rejected"]}
        assert reasons <= {"it has answered already", "it was not asked"}
        assert len(strategy.records[0]["rejected"]) == len(grid.replies) // 2 - CLIENTS


def test_metrics_that_do_not_go_together_are_left_out() -> None:
    odd: dict[int, dict[str, Any]] = {
        100: {"list": [1.0, 2.0], "number": 1.0, "kind": 1.0, "mine": 1.0, "good": 1.0},
        101: {"list": [1.0], "number": math.nan, "kind": [1.0], "good": 3.0},
    }

    def add(node: int, reply: Message) -> Message:
        reply.content["metrics"] = MetricRecord({"num-examples": 10, **odd[node]})
        return reply

    grid = InProcessGrid(client_app(2), 2)
    grid.tamper = add
    strategy = Strategy("fedfor", new_model(), fraction_evaluate=0)
    result = strategy.start(grid, num_rounds=1)
    assert strategy.records[0]["clients"] == 2
    assert dict(result.train_metrics_clientapp[1]) == {"good": 2.0}


def test_whole_numbers_that_came_as_others_are_rounded() -> None:
    """A wrapper has made 2.9999 of a count of batches that was 3."""
    like = torch.tensor(0)
    assert int(_as("n", torch.tensor(2.9999, dtype=torch.float64), like)) == 3
    with pytest.raises(BadReplyError, match="NaN or infinity in 'n'"):
        _as("n", torch.tensor(math.nan), like)


def test_replies_are_summed_in_the_order_of_the_clients() -> None:
    """In the numbers 1e30, 1 and -1e30 the sum depends on the order, even in float64."""
    values = {100: 1e30, 101: 1.0, 102: -1e30}

    def absurd(node: int, reply: Message) -> Message:
        name, tensor = first(reply)
        return changed(reply, **{name: Array(torch.full_like(tensor, values[node]))})

    means = []
    for order in ([0, 1, 2], [0, 2, 1]):
        grid = InProcessGrid(client_app(3), 3)
        grid.tamper = absurd
        grid.rearrange = lambda replies, order=order: [replies[k] for k in order]  # type: ignore[misc]
        strategy = Strategy("fedavg", new_model(), min_train_nodes=3, fraction_evaluate=0)
        strategy.start(grid, num_rounds=1)
        means.append(next(iter(strategy.server.params.values())))
    assert torch.equal(means[0], means[1])


def _from_a_stranger(reply: Message) -> Message:
    asked = Message(RecordDict(), 999, reply.metadata.message_type)
    return Message(reply.content, reply_to=asked)


def test_a_node_that_leaves_for_good() -> None:
    """The others go on without it, as long as there are enough of them."""
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)

    def leave(node: int, reply: Message) -> Message:
        if len(grid.asked) == CLIENTS:  # at the end of the first round
            del grid.contexts[104]
        return reply

    grid.tamper = leave
    strategy = run_two(grid, patience=0)
    assert [r["clients"] for r in strategy.records] == [CLIENTS, CLIENTS - 1]
    assert strategy.records[1]["rejected"] == []
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    grid.tamper = leave
    sentence = "round 2: 4 nodes are connected, and 5 are needed; waited 0 s for the others"
    with pytest.raises(FederationError, match=sentence):
        run_two(grid, patience=0, min_replies=5)


@pytest.mark.parametrize("accuracy", [math.nan, 1e300, -1.0, [0.5, 0.5]])
def test_a_bad_evaluation_is_named_and_left_out(
    accuracy: float, caplog: pytest.LogCaptureFixture
) -> None:
    grid = InProcessGrid(client_app(3), 3)

    def boast(node: int, reply: Message) -> Message:
        if node == 102 and "accuracy" in reply.content["metrics"]:
            told = {**reply.content["metrics"], "accuracy": accuracy}
            reply.content["metrics"] = MetricRecord(told)  # type: ignore[arg-type]
        return reply

    grid.tamper = boast
    strategy = Strategy("fedfor", new_model(), min_train_nodes=3)
    result = strategy.start(grid, num_rounds=1)
    honest = Strategy("fedfor", new_model(), min_train_nodes=3)
    honest.start(InProcessGrid(client_app(3), 3), num_rounds=1)
    assert strategy.records[0]["accuracy"] == pytest.approx(honest.records[0]["accuracy"])
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == strategy.records[0]["accuracy"]
    assert "Rejected the reply of node 102: its accuracy is" in caplog.text


def test_only_who_was_sent_a_difference_may_ask_for_the_model() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)

    def greedy(node: int, reply: Message) -> Message:
        if node == 104:
            reply.content["fedfor"] = ConfigRecord({"needs-model": True})
        return reply

    grid.tamper = greedy
    run_two(grid)
    assert len(grid.asked) == 2 * CLIENTS


def test_what_others_write_is_cut_and_printable() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    text = "\x1b[2J" + "x" * 10_000 + "\nERROR: all is lost"
    grid.tamper = lambda node, reply: (
        changed(reply, **{text: Array(np.zeros(1))}) if node == 104 else reply
    )
    why = run_two(grid).records[0]["rejected"][0]["why"]
    assert len(why) <= 300
    assert why.isprintable()


def test_settings_that_cannot_be_get_a_sentence() -> None:
    for options in (
        {"form": "silo"},
        {"min_replies": 0},
        {"max_norm": -1},
        {"fraction_train": 0},
        {"fraction_train": 2},
        {"fraction_evaluate": 2},
        {"fraction_evaluate": -1},
        {"retries": 1.5},
        {"patience": -1},
        {"checkpoint_every": 0},
    ):
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
