import pytest

from fedfor.experiments.metrics import (
    Spread,
    best_accuracy,
    mean_accuracy,
    rounds_to,
    summarise,
)

ACCURACIES = [0.2, None, 0.5, 0.4, 0.7, 0.6]
BYTES = {"down_cross_device": 10, "down_cross_silo": 5, "up": 4}
STATE = {"state_bytes": 8, "clients_with_state": 2}
RECORDS = [
    {"round": t, **BYTES, **STATE, **({} if a is None else {"accuracy": a})}
    for t, a in enumerate(ACCURACIES, 1)
]


def test_best_up_to_a_round() -> None:
    assert [best_accuracy(RECORDS, t) for t in (1, 2, 4, 6)] == [0.2, 0.2, 0.5, 0.7]
    assert best_accuracy([], 5) is None


def test_rounds_to_a_target() -> None:
    assert rounds_to(RECORDS, 0.5) == 3
    assert rounds_to(RECORDS, 0.7) == 5
    assert rounds_to(RECORDS, 0.71) is None


def test_mean_over_evaluated_rounds() -> None:
    assert mean_accuracy(RECORDS) == pytest.approx((0.2 + 0.5 + 0.4 + 0.7 + 0.6) / 5)
    assert mean_accuracy([]) is None


def test_summary() -> None:
    summary = summarise(RECORDS, rounds=6, half=3, target=0.65)
    assert (summary["best_half"], summary["best"], summary["final"]) == (0.5, 0.7, 0.6)
    assert summary["rounds_to_target"] == 5
    assert (summary["down_cross_device"], summary["down_cross_silo"], summary["up"]) == (60, 30, 24)
    assert (summary["state_bytes"], summary["clients_with_state"]) == (8, 2)
    assert summarise([], 6, 3, 0.5)["best"] is None


def test_sample_deviation() -> None:
    spread = Spread((1.0, 2.0, 3.0))
    assert (spread.mean, spread.deviation) == (2.0, 1.0)
    assert Spread((4.0,)).deviation is None


def test_a_seed_that_never_got_there_is_not_averaged_away() -> None:
    spread = Spread((10.0, None, 20.0))
    assert (spread.mean, spread.deviation) == (None, None)
    assert spread.reached == [10.0, 20.0]
