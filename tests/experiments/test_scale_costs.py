"""Bytes that are counted are those worked out by hand; what is held is counted once."""

import random
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedfor.experiments import scale_costs
from fedfor.experiments.deployment import (
    Given,
    called_before,
    clients_seen,
    most_parts,
    seconds_on_link,
    seconds_to_aggregate,
    server_memory,
)
from fedfor.experiments.scale_costs import METHODS, Cost, cost, held_bytes
from fedfor.protocol import Server
from fedfor.protocol.tree import Node, Tree

from ..report.made_scale import made_cost

pytestmark = pytest.mark.fast

P = 4 * (3 * 2 + 2 + 2 + 2)
"""Bytes of the parameters of the tiny model."""
B = 4 * (2 + 2) + 8
"""Of its batch norm's mean, variance and counter."""


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


@pytest.fixture(autouse=True)
def in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is tested here for its length."""
    monkeypatch.setattr(scale_costs, "LONG_ENOUGH", 1e-9)
    monkeypatch.setattr(scale_costs, "REPEATS", 1)


@pytest.mark.parametrize(
    ("method", "down", "silo", "up", "kept"),
    [
        ("fedfor", 2 * P + B, P + B, P + B, 0),  # w and the last move; whoever has w makes it
        ("fedavg", P + B, P + B, P + B, 0),
        ("fedprox", P + B, P + B, P + B, 0),
        ("fedcurv", 3 * P + B, 3 * P + B, 3 * P + B, 2 * P),  # w, Fisher and Fisher times w
        ("feddyn", P + B, P + B, P + B, P),
        ("fedpd", P + B, P + B, P + B, P),
        ("scaffold", 2 * P + B, 2 * P + B, 2 * P + B, P),  # w and a control variate
    ],
)
def test_bytes_of_a_client_are_as_by_hand(
    method: str, down: int, silo: int, up: int, kept: int
) -> None:
    found = cost(method, "tiny", tiny())
    assert (found.parameters, found.model_bytes) == (12, P + B)
    assert (found.down, found.down_silo, found.up, found.kept) == (down, silo, up, kept)


@pytest.mark.parametrize(
    ("method", "state"),
    [
        ("fedfor", 1),  # the last move
        ("fedavg", 1),  # the model before
        ("fedcurv", 3),  # that, and two sums
        ("feddyn", 2),
        ("scaffold", 2),
    ],
)
def test_bytes_of_the_server_are_as_by_hand(method: str, state: int) -> None:
    found = cost(method, "tiny", tiny())
    assert found.server == P + B + state * P
    rows = 3 if method == "fedfor" else 4  # where moves begin, they, the last; and that one anew
    assert found.summing == rows * P


@pytest.mark.parametrize(("method", "sent"), [("fedavg", 0), ("fedcurv", 2), ("scaffold", 1)])
def test_partial_sums_have_eight_bytes_a_number(method: str, sent: int) -> None:
    """Of what comes up; and of moves their lengths, directions and how many weights opposed."""
    model, moves = 2 * P + 8 * (2 + 2 + 1), 2 * P + 8 + 8
    assert cost(method, "tiny", tiny()).partial == model + moves + sent * 2 * P


def test_times_are_positive_and_sums_have_no_leaves_left() -> None:
    found = cost("fedfor", "tiny", tiny())
    assert min(found.seconds_fixed, found.seconds_a_reply, found.seconds_a_merge) > 0
    assert found.summed & (found.summed - 1) == 0


def test_sums_are_as_long_as_a_clock_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, of a clock that counts 10 ms for each reply."""
    monkeypatch.setattr(scale_costs, "LONG_ENOUGH", 0.1)
    monkeypatch.setattr(scale_costs, "_sum", lambda server, replies, count: (5.0, 0.01 * count))
    found = cost("fedavg", "tiny", tiny())
    assert found.summed == 16
    assert found.seconds_a_reply == pytest.approx(0.01)
    assert found.seconds_fixed == 5.0
    monkeypatch.setattr(scale_costs, "MOST", 8)
    assert cost("fedavg", "tiny", tiny()).summed == 8


def test_what_several_hold_is_counted_once() -> None:
    row = torch.zeros(100)
    view, alone = row[:10], torch.zeros(5, dtype=torch.float64)
    assert held_bytes(holder(a=row)) == 400
    assert held_bytes(holder(a=view)) == 400  # the whole of it is in memory
    assert held_bytes(holder(a=row, b=[view, (row, {"x": view})]), holder(c=alone)) == 440
    ring = holder(a=alone)
    ring.me = ring
    assert held_bytes(ring) == 40
    assert held_bytes(holder(kind=torch.Tensor, n=3)) == 0


def holder(**has: object) -> Server:
    return SimpleNamespace(**has)  # type: ignore[return-value]


@pytest.mark.parametrize("method", METHODS)
def test_memory_of_the_server_is_what_it_holds_at_the_most(method: str) -> None:
    """Against a round whose replies come one by one, looked at before and after each."""
    found, model = cost(method, "tiny", tiny()), tiny()
    server = Server(method, model, 10**10)
    server.aggregate([scale_costs._client(server.algorithm, model, server)[0]], 0.01)
    sums, most = server.begin(), 0
    for count in range(1, 18):
        reply, _ = scale_costs._client(server.algorithm, model, server)
        if count > 1:  # by then there is a place for moves
            most = max(most, held_bytes(server, sums) + found.up + found.partial)
            assert most == server_memory(found, count)
        sums.add(reply)


# What follows from them


def test_the_most_parts_are_those_of_the_tree() -> None:
    tree, most = Tree[int](lambda a, b: a + b), 0
    for count in range(1, 300):
        most = max(most, len(tree.nodes()) + 1)
        tree.put(Node(0, count - 1, 1))
        assert most_parts(count) == most
    assert most_parts(1_000) == 10
    assert most_parts(10_000) == 14
    assert most_parts(0) == 0


def test_who_was_called_before_is_as_when_cohorts_are_drawn() -> None:
    draws, clients, cohort, rounds = random.Random(0), 20, 3, 6
    tries, hits = 4_000, 0
    for _ in range(tries):
        hits += any(7 in draws.sample(range(clients), cohort) for _ in range(rounds))
    assert called_before(clients, cohort, rounds) == pytest.approx(hits / tries, abs=0.03)
    assert called_before(clients, cohort, rounds) == pytest.approx(1 - (17 / 20) ** 6)
    assert clients_seen(clients, cohort, rounds) == pytest.approx(20 * (1 - (17 / 20) ** 6))


def test_who_was_called_before_is_exact_where_it_is_rare() -> None:
    assert called_before(10**10, 1_000, 1) == pytest.approx(1e-7, rel=1e-12)
    assert clients_seen(10**10, 1_000, 1) == pytest.approx(1_000, rel=1e-12)
    # of N clients, t rounds of m see t m, less those seen twice: t (t - 1) / 2 m^2 / N
    twice = 100 * 99 / 2 * 1_000**2 / 10**10
    assert clients_seen(10**10, 1_000, 100) == pytest.approx(100_000 - twice, rel=1e-9)


def test_who_was_called_before_at_the_edges() -> None:
    assert called_before(10, 10, 1) == 1
    assert called_before(10, 10, 0) == called_before(10, 3, 0) == 0
    assert clients_seen(10, 10, 5) == 10


def test_time_of_aggregation_is_as_by_hand() -> None:
    """2 ms a reply, 1 ms to add two sums, 10 ms to begin and to step."""
    made = made_cost()
    assert seconds_to_aggregate(made, 1_000, 1) == pytest.approx(2.0 + 0.01)
    assert seconds_to_aggregate(made, 1_000, 10) == pytest.approx(0.2 + 4 * 0.001 + 0.01)
    assert seconds_to_aggregate(made, 1_001, 10) == pytest.approx(0.202 + 4 * 0.001 + 0.01)
    assert seconds_to_aggregate(made, 5, 8) == pytest.approx(0.002 + 3 * 0.001 + 0.01)


def test_memory_and_time_on_the_link_are_as_by_hand() -> None:
    """Of a model of 4 MB."""
    made = made_cost()
    assert server_memory(made, 1_000) == 4_000_000 * (2 + 3 + 10 * 4 + 1)
    assert seconds_on_link(12e6 * 1_000, Given()) == pytest.approx(9.6)


def test_costs_of_all_methods_are_taken_of_one_model() -> None:
    threads = torch.get_num_threads()
    try:
        found = scale_costs.do_costs({"model": "linear"}, None)["costs"]  # type: ignore[arg-type]
    finally:
        torch.set_num_threads(threads)
    assert [one["method"] for one in found] == list(METHODS)
    assert {(one["model"], one["parameters"]) for one in found} == {("linear", 650)}
    assert [Cost.model_validate(one).up for one in found[:2]] == [2_600, 2_600]
