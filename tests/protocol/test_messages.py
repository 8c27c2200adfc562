"""Bytes are counted from the tensors sent; bad replies are named."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedfor.algorithms import PRESETS, algorithm
from fedfor.errors import ConfigError
from fedfor.protocol import Message, Reply, Server
from fedfor.report.algorithms import cost_row

pytestmark = pytest.mark.fast

PARAMS = {"w": torch.zeros(10), "b": torch.zeros(2)}
BUFFERS = {"mean": torch.zeros(3), "count": torch.zeros((), dtype=torch.int64)}
MODEL = 4 * 15 + 8


def reply(**changed: object) -> Reply:
    good = Reply({**PARAMS, **BUFFERS}, {}, examples=5, steps=2)
    return replace(good, **changed)  # type: ignore[arg-type]


def test_bytes_of_a_model_alone() -> None:
    message = Message(1, PARAMS, BUFFERS)
    assert (message.nbytes, message.silo_nbytes) == (MODEL, MODEL)
    assert reply().nbytes == MODEL


def test_two_models_down_across_devices_and_the_difference_in_a_silo() -> None:
    message = Message(2, PARAMS, BUFFERS, {"direction": PARAMS}, difference="direction")
    assert message.nbytes == MODEL + 4 * 12
    assert message.silo_nbytes == MODEL  # the difference in place of the parameters


@pytest.mark.parametrize("name", PRESETS)
def test_the_table_of_costs_is_what_is_sent(name: str) -> None:
    """`fedfor algorithms` says how many models go down; the messages must agree."""
    net = nn.Linear(6, 4)
    chosen = algorithm(name)
    server = Server(chosen, net, population=2)
    model = server.message().nbytes
    extras = {extra: dict(server.params) for extra in chosen.client.up}
    answer = Reply(server.model, extras, examples=1, steps=1)
    server.aggregate([answer], client_lr=0.1)
    row = cost_row(chosen)
    message = server.message()
    assert [message.nbytes, message.silo_nbytes, answer.nbytes] == [
        model * int(times) for times in row[3:6]
    ]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (reply(examples=0), "number of examples is 0"),
        (reply(extras={"x": PARAMS}), "extras are ['x'], expected []"),
        (reply(model=PARAMS), "model: 'count' is missing"),
        (reply(model={**PARAMS, **BUFFERS, "z": torch.zeros(1)}), "'z' is not part of the model"),
        (reply(model={**PARAMS, **BUFFERS, "w": torch.zeros(9)}), "'w' has shape (9,)"),
        (
            reply(model={**PARAMS, **BUFFERS, "w": torch.full((10,), float("nan"))}),
            "model: NaN or infinity in 'w'",
        ),
        (
            reply(model={**PARAMS, **BUFFERS, "mean": torch.full((3,), float("inf"))}),
            "NaN or infinity in 'mean'",
        ),
    ],
)
def test_bad_replies_are_named(bad: Reply, words: str) -> None:
    assert words in (bad.problem(Message(1, PARAMS, BUFFERS), ()) or "")


def test_bad_extras_are_named() -> None:
    message = Message(1, PARAMS, BUFFERS)
    for extra in ({"w": torch.zeros(10)}, {**PARAMS, "w": torch.full((10,), float("nan"))}):
        problem = reply(extras={"fisher": extra}).problem(message, ("fisher",))
        assert problem is not None
        assert problem.startswith("fisher: ")


def test_good_replies_pass() -> None:
    assert reply().problem(Message(1, PARAMS, BUFFERS), ()) is None


def test_whole_numbers_are_averaged_to_whole_numbers() -> None:
    net = nn.BatchNorm1d(2)
    server = Server("fedavg", net, population=2)
    replies = [
        Reply({**server.model, "num_batches_tracked": torch.tensor(n)}, {}, 1, 1) for n in (3, 6)
    ]
    server.aggregate(replies, client_lr=0.1)
    assert server.buffers["num_batches_tracked"].item() == 4
    assert server.buffers["num_batches_tracked"].dtype == torch.int64


def test_disagreement_is_one_when_all_move_alike() -> None:
    server = Server("fedavg", nn.Linear(3, 2), population=2)
    moved = {n: t + 1 for n, t in server.model.items()}
    assert server.aggregate([Reply(moved, {}, 1, 1)] * 2, 0.1) == pytest.approx(1, abs=1e-5)
    server = Server("fedavg", nn.Linear(3, 2), population=2)
    moved = {n: t + 3 for n, t in server.model.items()}
    back = {n: t - 1 for n, t in server.model.items()}
    # lengths 3 and 1, mean move 1: (3 + 1)/2 / 1
    pair = [Reply(moved, {}, 1, 1), Reply(back, {}, 1, 1)]
    assert server.aggregate(pair, 0.1) == pytest.approx(2, abs=1e-5)


def test_disagreement_counts_examples_where_the_mean_does() -> None:
    server = Server(algorithm("fedavg", weighting="examples"), nn.Linear(3, 2), population=2)
    moved = {n: t + 3 for n, t in server.model.items()}
    back = {n: t - 1 for n, t in server.model.items()}
    # lengths 3 and 1, of 3 examples and 1; mean move (9 - 1)/4 = 2: (9 + 1)/4 / 2
    pair = [Reply(moved, {}, 3, 1), Reply(back, {}, 1, 1)]
    assert server.aggregate(pair, 0.1) == pytest.approx(1.25, abs=1e-5)


def test_the_server_refuses_what_cannot_be_a_reply() -> None:
    server = Server("scaffold", nn.Linear(3, 2), population=2)
    before = dict(server.params)
    nan = {n: t * float("nan") for n, t in server.model.items()}
    extras = {"control_change": dict(server.params)}
    for bad in (Reply(nan, extras, 1, 1), Reply(server.model, {}, 1, 1)):
        with pytest.raises(ConfigError, match="reply 1 of round 1"):
            server.aggregate([bad], 0.1)
    assert all(torch.equal(before[n], server.params[n]) for n in before)


def test_a_round_without_replies_is_refused() -> None:
    with pytest.raises(ConfigError, match="no client replied"):
        Server("fedavg", nn.Linear(3, 2), population=2).aggregate([], 0.1)


def test_state_comes_back() -> None:
    first, second = (Server("fedfor+fedadam", nn.Linear(3, 2), population=2) for _ in range(2))
    for t in range(3):
        moved = {n: v + t for n, v in first.model.items()}
        first.aggregate([Reply(moved, {}, 1, 1)], 0.1)
    second.load_state(first.round, first.state())
    assert second.round == 3
    for server in (first, second):
        moved = {n: v + 0.5 for n, v in first.model.items()} if server is first else moved
        server.aggregate([Reply(moved, {}, 1, 1)], 0.1)
    assert all(torch.equal(first.model[n], second.model[n]) for n in first.model)


def test_state_of_another_algorithm_is_refused() -> None:
    server = Server("fedadam", nn.Linear(3, 2), population=2)
    with pytest.raises(ConfigError, match="saved state does not fit"):
        server.load_state(1, Server("fedavg", nn.Linear(3, 2), population=2).state())
