"""Slices that should take equally long, and what is learned from how long they took."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedfor.engines.ray import costs as costs_module
from fedfor.engines.ray.costs import HEAD, Costs, Ledger, Piece, Took, cut

pytestmark = pytest.mark.fast

KINDS: dict[str, Callable[[np.random.Generator, int], Costs]] = {
    "even": lambda draw, n: np.ones(n),
    "ragged": lambda draw, n: draw.lognormal(0, 1.5, n),
    "mostly zero": lambda draw, n: draw.random(n) * (draw.random(n) < 0.1),
    "one giant": lambda draw, n: np.where(np.arange(n) == draw.integers(max(n, 1)), 1e6, 1e-3),
    "zero": lambda draw, n: np.zeros(n),
}

SIZES = st.one_of(st.integers(0, 12), st.integers(100, 900))
"""Leaves of a job: of so many that borders are at multiples of 2, 4 or 8, too."""


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[Costs], list[int], list[float]]:
    """The costs of several jobs, and the workers that there are for them, with their speeds."""
    sizes = draw(st.lists(SIZES, min_size=1, max_size=4))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = [KINDS[draw(st.sampled_from(sorted(KINDS)))](numbers, n) for n in sizes]
    workers = draw(st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True))
    speeds = st.lists(st.floats(0.01, 10), min_size=len(workers), max_size=len(workers))
    return jobs, workers, draw(speeds)


ROUNDED_INTO_THE_NEXT_JOB = (
    [np.where(np.arange(303) == 302, 1e6, 1e-3), np.ones(900)],
    [0, 1, 2],
    [1.0, 1.0, 1.0],
)
"""Borders are on both sides of the last leaf of a job whose length is no multiple of 2 or 4."""


@given(rounds(), st.booleans())
@example(ROUNDED_INTO_THE_NEXT_JOB, False)
@example(ROUNDED_INTO_THE_NEXT_JOB, True)
def test_each_leaf_is_in_one_piece(
    case: tuple[list[Costs], list[int], list[float]], split: bool
) -> None:
    jobs, workers, speeds = case
    pieces = cut(jobs, workers, speeds, split)
    total = float(np.concatenate(jobs).sum())
    for job, costs in enumerate(jobs):
        mine = sorted((p for p in pieces if p.job == job), key=lambda piece: piece.first)
        borders = [0, *(piece.last for piece in mine)]
        assert [piece.first for piece in mine] == borders[:-1]
        assert borders[-1] == len(costs)
        for piece in mine:
            assert piece.first < piece.last
            expected = costs[piece.first : piece.last].sum()
            assert piece.cost == pytest.approx(expected, abs=1e-9 * total)
    assert {piece.owner for piece in pieces} <= {*workers, *([None] if split else [])}
    assert len(set(pieces)) == len(pieces)
    assert cut(jobs, workers, speeds, split) == pieces


def grain(leaves: int, workers: int) -> int:
    found = 1
    while leaves // (2 * found) >= 64 * workers:
        found *= 2
    return found


def by_owner(pieces: Sequence[Piece], worker: int | None) -> float:
    return sum(piece.cost for piece in pieces if piece.owner == worker)


@given(rounds())
def test_shares_are_as_workers_are_fast(
    case: tuple[list[Costs], list[int], list[float]],
) -> None:
    jobs, workers, speeds = case
    costs = np.concatenate(jobs)
    total, largest = float(costs.sum()), float(costs.max(initial=0.0))
    rounded = grain(len(costs), len(workers))
    slack = (rounded if rounded > 1 else 0) * largest + largest + 1e-9 * total
    whole, parted = cut(jobs, workers, speeds, False), cut(jobs, workers, speeds, True)
    for worker, speed in zip(workers, speeds, strict=True):
        share = total * speed / sum(speeds)
        assert abs(by_owner(whole, worker) - share) <= slack
        assert by_owner(parted, worker) <= max(HEAD * share, 4 * largest) + 2 * slack


def test_what_is_left_for_whoever_is_done_comes_last_and_the_longest_first() -> None:
    costs = np.random.default_rng(0).lognormal(0, 1, 400)
    pieces = cut([costs[:150], costs[150:]], [3, 5], [1.0, 2.0], True)
    owners = [piece.owner for piece in pieces]
    first_free = owners.index(None)
    assert set(owners[:first_free]) == {3, 5}
    assert set(owners[first_free:]) == {None}
    rest = [piece.cost for piece in pieces[first_free:]]
    assert rest == sorted(rest, reverse=True)
    assert sum(rest) == pytest.approx((1 - HEAD) * costs.sum(), rel=0.05)


def test_a_share_of_few_leaves_is_not_split() -> None:
    assert [p.owner for p in cut([np.ones(6)], [0, 1], [1.0, 1.0], True)] == [0, 1]
    assert None in [p.owner for p in cut([np.ones(8)], [0, 1], [1.0, 1.0], True)]


def test_borders_of_many_leaves_are_where_sums_have_few_parts() -> None:
    pieces = cut([np.ones(7), np.ones(5003)], [0, 1, 2], [1.0, 1.0, 1.0], True)
    inner = {piece.last for piece in pieces if piece.job == 1 and piece.last < 5003}
    assert inner
    assert all(border % 16 == 0 for border in inner)


def test_of_jobs_without_a_leaf_nothing_comes() -> None:
    assert cut([], [0, 1], [1.0, 1.0], True) == []
    assert cut([np.ones(0), np.ones(0)], [0], [1.0], False) == []


# What is learned


class Workshop:
    """Clients that truly cost so many seconds, and workers that truly are so fast."""

    def __init__(self, seconds: Costs, speeds: dict[int, float], ledger: Ledger) -> None:
        self.seconds, self.speeds, self.ledger = seconds, speeds, ledger

    def cut(self, cohort: Sequence[int]) -> list[Piece]:
        costs = self.ledger.expect(cohort, [1.0] * len(cohort))
        known = [self.ledger.speed(worker) for worker in self.speeds]
        return cut([costs], list(self.speeds), known, split=False)

    def took(self, cohort: Sequence[int], piece: Piece, slower: float = 1.0) -> Took:
        clients = cohort[piece.first : piece.last]
        assert piece.owner is not None
        seconds = (slower * self.seconds[clients] / self.speeds[piece.owner]).tolist()
        return Took(piece.owner, list(clients), [1.0] * len(clients), seconds)

    def round(self, cohort: Sequence[int], slower: float = 1.0) -> list[float]:
        """Gives back when each worker has finished."""
        slices = [self.took(cohort, piece, slower) for piece in self.cut(cohort)]
        self.ledger.learn(slices)
        ends = dict.fromkeys(self.speeds, 0.0)
        for took in slices:
            ends[took.worker] += sum(took.seconds)
        return list(ends.values())


def ragged(count: int) -> Costs:
    return np.random.default_rng(1).lognormal(0, 1.5, count)


def unevenness(ends: Sequence[float]) -> float:
    """How much longer the last one takes than all would, evenly."""
    return max(ends) * len(ends) / sum(ends) - 1


def test_after_a_round_ragged_clients_finish_together() -> None:
    cohort = range(200)
    shop = Workshop(ragged(200), dict.fromkeys(range(5), 1.0), Ledger())
    by_count, learned = shop.round(cohort), shop.round(cohort)
    assert unevenness(by_count) > 0.3
    assert max(learned) <= sum(learned) / 5 + shop.seconds.max()
    assert unevenness(learned) < unevenness(by_count) / 3
    assert shop.ledger.expect([7], [1.0])[0] == pytest.approx(shop.seconds[7], rel=0.3)


def test_what_is_known_of_sizes_is_used_before_anything_is_measured() -> None:
    sizes = [1.0] * 30 + [10.0] * 3
    ledger = Ledger()
    assert not ledger.in_seconds
    pieces = cut([ledger.expect(range(33), sizes)], [0, 1], [1.0, 1.0], split=False)
    assert [(piece.first, piece.last) for piece in pieces] == [(0, 30), (30, 33)]
    ledger.learn([Took(0, [0], [2.0], [6.0]), Took(1, [1], [1.0], [3.0])])
    assert ledger.in_seconds
    assert ledger.expect([0, 9], [2.0, 5.0]).tolist() == [6.0, 15.0]


def test_whoever_is_half_as_fast_gets_half_as_much() -> None:
    shop = Workshop(ragged(300), {0: 2.0, 1: 1.0, 2: 2.0}, Ledger())
    draw = np.random.default_rng(2)
    for _ in range(30):
        ends = shop.round(draw.choice(300, 120, replace=False).tolist())
    assert unevenness(ends) < 0.1
    assert shop.ledger.speed(1) / shop.ledger.speed(0) == pytest.approx(0.5, rel=0.1)
    cohort = list(range(300))
    true = [shop.seconds[cohort[p.first : p.last]].sum() for p in shop.cut(cohort)]
    assert true[1] / true[0] == pytest.approx(0.5, rel=0.2)


def test_a_worker_that_grows_slow_is_noticed() -> None:
    shop = Workshop(ragged(100), {0: 1.0, 1: 1.0}, Ledger())
    for _ in range(3):
        shop.round(range(100))
    shop.speeds[1] = 0.25
    before = shop.round(range(100))
    for _ in range(15):
        ends = shop.round(range(100))
    assert unevenness(before) > 0.5
    assert unevenness(ends) < 0.1


def test_a_first_round_that_is_slow_for_all_is_forgotten() -> None:
    shop = Workshop(ragged(60), {0: 1.0, 1: 1.0, 2: 1.0}, Ledger())
    shop.round(range(50), slower=20.0)
    for _ in range(14):
        shop.round(range(50))
    expected = shop.ledger.expect(range(50), [1.0] * 50)
    assert expected == pytest.approx(shop.seconds[:50], rel=0.01)
    assert [shop.ledger.speed(worker) for worker in range(3)] == pytest.approx([1.0] * 3)
    new = shop.ledger.expect([55], [1.0])[0]  # of whom nothing but the size is known
    assert new == pytest.approx(shop.seconds[:50].mean(), rel=0.01)


@pytest.mark.parametrize("noise", [0.1, 1.0, 30.0])
def test_a_worker_that_is_alone_has_no_speed_but_1(noise: float) -> None:
    """What it takes longer or less is what clients cost."""
    ledger, draw = Ledger(), np.random.default_rng(0)
    for _ in range(6):
        seconds = (draw.random(4) * noise + 0.01).tolist()
        ledger.learn([Took(0, range(4), [1.0] * 4, seconds)])
        assert ledger.speed(0) == pytest.approx(1.0)


def test_a_client_counts_as_on_a_worker_of_speed_1() -> None:
    ledger = Ledger({0: 0.5, 1: 1.0})
    ledger.learn([Took(0, [4], [1.0], [6.0]), Took(1, [5], [1.0], [3.0])])
    assert ledger.expect([4, 5, 6], [1.0] * 3).tolist() == [3.0, 3.0, 3.0]


def test_runs_share_what_is_known_of_workers_and_not_of_clients() -> None:
    speeds: dict[int, float] = {}
    first, second = Ledger(speeds), Ledger(speeds)
    shop = Workshop(ragged(40), {0: 2.0, 1: 1.0}, first)
    draw = np.random.default_rng(2)
    for _ in range(20):
        shop.round(draw.permutation(40).tolist())
    assert second.speed(1) / second.speed(0) == pytest.approx(0.5, rel=0.1)
    assert not second.in_seconds
    assert second.expect([3], [7.0]).tolist() == [7.0]


def test_a_round_of_which_nothing_is_known_changes_nothing() -> None:
    ledger = Ledger()
    ledger.learn([])
    ledger.learn([Took(0, [], [], []), Took(1, [2], [1.0], [0.0])])
    assert not ledger.in_seconds
    assert ledger.speed(1) == 1.0


def test_memory_is_bounded_by_the_clients_that_came_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(costs_module, "REMEMBERED", 10)
    ledger = Ledger()
    for client in [*range(25), 16]:
        ledger.learn([Took(0, [client], [1.0], [1.0 + client])])
    assert len(ledger._own) == 10
    of_all = ledger.expect([99], [1.0])[0]
    known = [k for k in range(25) if ledger.expect([k], [1.0])[0] != of_all]
    assert known == [*range(15, 25)]
    for new in (50, 51):  # 15 and 17 came longest ago, and not 16
        ledger.learn([Took(0, [new], [1.0], [1.0])])
    assert sorted(ledger._own) == [16, *range(18, 25), 50, 51]
