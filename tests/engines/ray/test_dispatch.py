"""Who is given what, when again, and when no more. Nobody waits: the clock is a script's."""

import logging
from collections.abc import Callable

import pytest

from fedfor.engines.ray import dispatch
from fedfor.engines.ray.costs import Piece
from fedfor.engines.ray.crew import MOST_LOST_AT_START, PATIENCE
from fedfor.engines.ray.dispatch import MOST_TRIES, SLOW, TICK, _late, _next, _Open
from fedfor.errors import FedforError

from .scripted import NEVER, Bench, Broken, Gone, Report, Script

pytestmark = pytest.mark.fast

MakeBench = Callable[[int, Script], Bench]
TIMES, MORE = SLOW


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> MakeBench:
    return lambda workers, script: Bench(monkeypatch, workers, script)


def piece(first: int, owner: int | None = None, cost: float = 1.0) -> Piece:
    return Piece(0, first, first + 1, cost, owner)


def as_expected(worker: int, piece: Piece) -> tuple[float, None]:
    return piece.cost, None


def frozen(which: int) -> Script:
    return lambda worker, piece: (NEVER if worker == which else piece.cost, None)


def test_own_pieces_first_then_nobody_s_then_another_s() -> None:
    queue = [piece(0, 1), piece(1), piece(2, 0), piece(3, 0), piece(4), piece(5, 1)]
    given = [_next(queue, 0) for _ in range(7)]
    assert [p.first if p else None for p in given] == [2, 3, 1, 4, 0, 5, None]
    assert queue == []


def test_whoever_is_done_helps_the_others(bench: MakeBench) -> None:
    """Worker 0 is fast."""
    place = bench(2, lambda worker, piece: ((0.4, 1.0)[worker] * piece.cost, None))
    pieces = [piece(0, 0), piece(1, 1), piece(2, 1), piece(3, 1), piece(4), piece(5)]
    answers = place.carry_out(pieces)
    assert place.order == [(0, 0), (1, 1), (0, 4), (0, 5), (1, 2), (0, 3)]
    assert answers.keys() == set(pieces)
    assert {p.first: answer.worker for p, answer in answers.items()} == {
        n: worker for worker, n in place.order
    }
    assert all(answer.report == Report(answer.worker) for answer in answers.values())
    assert all(answer.references == ("sums", "states") for answer in answers.values())
    assert answers[pieces[1]].seconds == pytest.approx(1.0)
    assert place.dispatch.repeated == 0
    assert place.ray.stopped == []


def test_a_late_piece_is_given_again_and_whoever_stands_still_is_told(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place = bench(2, frozen(1))
    answers = place.carry_out([piece(0, 0), piece(1, 1, cost=3.0)])
    assert place.order == [(0, 0), (1, 1), (0, 1)]
    (_, _, (again, _, late)) = place.ray.asked
    assert TIMES * 3.0 + MORE < again <= TIMES * 3.0 + MORE + 2 * TICK
    assert answers[late].worker == 0
    assert [(worker, p) for _, worker, p in place.ray.stopped] == [(1, late)]
    assert place.dispatch.repeated == 1
    assert "slow: leaves from 1 on; given to another worker too" in caplog.messages
    assert place.dispatch.lost == []
    assert not place.crew.members[1].idle  # it still is at it, as far as anyone knows


def test_the_first_answer_counts_also_of_who_was_slow(bench: MakeBench) -> None:
    def script(worker: int, piece: Piece) -> tuple[float, None]:
        if piece.first == 1:
            return (4.0 if worker == 1 else NEVER), None
        return piece.cost, None

    place = bench(2, script)
    answers = place.carry_out([piece(0, 0), piece(1, 1)])
    assert place.order == [(0, 0), (1, 1), (0, 1)]
    assert answers[piece(1, 1)].worker == 1
    assert answers[piece(1, 1)].seconds == pytest.approx(4.0)
    assert [(worker, p.first) for _, worker, p in place.ray.stopped] == [(0, 1)]


def test_a_piece_is_never_given_to_a_third(bench: MakeBench) -> None:
    def script(worker: int, piece: Piece) -> tuple[float, None]:
        if piece.first == 3:
            return (NEVER if worker == 3 else 200.0), None
        return piece.cost, None

    place = bench(4, script)
    answers = place.carry_out([piece(n, n) for n in range(4)])
    assert len(place.ray.asked) == 5
    assert place.dispatch.repeated == 1
    (second,) = [worker for worker, first in place.order if first == 3 and worker != 3]
    assert answers[piece(3, 3)].worker == second


def test_of_two_late_ones_the_latest_is_given_again_first(bench: MakeBench) -> None:
    def script(worker: int, piece: Piece) -> tuple[float, None]:
        return (NEVER if worker else 10.0 if piece.first == 0 else 1.0), None

    place = bench(3, script)
    place.carry_out([piece(0, 0, cost=10.0), piece(1, 1, cost=4.0), piece(2, 2, cost=1.0)])
    assert place.order[3:] == [(0, 2), (0, 1)]


def test_who_has_been_too_slow_is_asked_again_once_it_is_done(bench: MakeBench) -> None:
    """What it says of the round before is not taken for an answer."""
    slow = {(1, 1): 9.0}
    place = bench(2, lambda worker, p: (slow.get((worker, p.first), p.cost), None))
    first = place.carry_out([piece(0, 0), piece(1, 1)])
    assert {p.first: answer.worker for p, answer in first.items()} == {0: 0, 1: 0}
    assert place.ray.now < 9.0
    again = place.carry_out([piece(n, n % 2) for n in range(2, 30)])
    assert {p.first for p in again} == set(range(2, 30))
    assert 1 in {answer.worker for answer in again.values()}
    assert min(when for when, worker, p in place.ray.asked if worker == 1 and p.first > 1) == 9.0


def test_who_was_told_to_stop_and_did_has_not_answered(bench: MakeBench) -> None:
    told = iter([Report(0, stopped=True), Report(0)])
    place = bench(1, lambda worker, p: (1.0, next(told)))
    answers = place.carry_out([piece(0, 0)])
    assert answers[piece(0, 0)].report == Report(0)
    assert place.dispatch.lost == []


def test_what_was_lost_with_a_worker_comes_first_with_the_next(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    place = bench(2, lambda worker, p: (0.3, Gone("killed")) if worker == 1 else (p.cost, None))
    pieces = [piece(0, 0, cost=3.0), piece(1, 1), piece(2, 0), piece(3, 0)]
    answers = place.carry_out(pieces)
    assert answers.keys() == set(pieces)
    assert place.ray.killed == [1]
    assert place.crew.hired == 1
    assert place.dispatch.lost == ["worker 1 on host-1 was lost, and with it leaves from 1 on"]
    warned = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert warned == [f"{place.dispatch.lost[0]}; done again elsewhere"]
    assert place.crew.lanes is None
    assert next(first for worker, first in place.order if worker == 2) == 1


def test_of_two_that_are_at_it_one_may_be_lost(bench: MakeBench) -> None:
    """The other goes on, and it is not queued once more."""

    def script(worker: int, piece: Piece) -> tuple[float, Exception | None]:
        if piece.first == 1:
            return (6.0, None) if worker == 1 else (0.5, Gone("killed"))
        return piece.cost, None

    place = bench(3, script)
    place.ray.start = 5.0
    answers = place.carry_out([piece(0, 0), piece(1, 1), piece(2, 2, cost=20.0)])
    assert answers[piece(1, 1)].worker == 1
    assert place.order == [(0, 0), (1, 1), (2, 2), (0, 1)]
    assert len(place.dispatch.lost) == 1
    assert place.ray.stopped == []


def test_a_piece_that_ends_whoever_takes_it_ends_the_round(bench: MakeBench) -> None:
    place = bench(2, lambda _, p: (0.1, Gone("killed")) if p.first == 1 else (p.cost, None))
    with pytest.raises(FedforError, match=r"leaves from 1 on, as 3 workers before: they may run"):
        place.carry_out([piece(0, 0), piece(1, 1)])
    assert [first for _, first in place.order].count(1) == MOST_TRIES
    assert place.crew.hired == MOST_TRIES
    assert place.crew.lanes == 8  # halved with the second loss, the third and the fourth


@pytest.mark.parametrize("words", dispatch.OUT_OF_MEMORY)
def test_those_who_come_after_one_without_memory_train_half_as_many(
    bench: MakeBench, words: str
) -> None:
    lost = iter([Gone(f"the node was {words}")])
    place = bench(1, lambda _, p: (0.1, next(lost, None)))
    place.carry_out([piece(0, 0)])
    assert place.crew.lanes == 32


def test_a_worker_that_cannot_do_it_is_not_lost(bench: MakeBench) -> None:
    place = bench(2, lambda _, p: (0.1, Broken("Traceback\n  ...\nOSError: no space left")))
    with pytest.raises(FedforError, match=r"leaves from 0 on could not be done: OSError: no space"):
        place.carry_out([piece(0, 0)])
    assert place.crew.hired == 0
    assert place.ray.killed == []


def test_somebody_lost_with_what_others_have_done_is_replaced(bench: MakeBench) -> None:
    """In the round after, too."""

    def script(worker: int, p: Piece) -> tuple[float, Exception | None]:
        return (4.0, Gone("killed")) if worker == 1 else (p.cost, None)

    place = bench(2, script)
    place.carry_out([piece(0, 0), piece(1, 1)])
    place.carry_out([piece(n) for n in range(2, 9)])
    assert place.dispatch.lost == [
        "worker 1 on host-1 was lost, and with it nothing that was still wanted"
    ]
    assert sorted(place.crew.members) == [0, 2]
    assert place.crew.lanes is None


def test_without_any_worker_a_round_is_given_up_after_a_while(bench: MakeBench) -> None:
    place = bench(1, lambda *_: (1.0, Gone("killed")))
    place.ray.start = NEVER
    with pytest.raises(FedforError, match=r"no worker .* was ready within 120 s"):
        place.carry_out([piece(0, 0)])
    assert PATIENCE <= place.ray.now - 1.0 <= PATIENCE + 2 * TICK


def test_workers_that_cannot_be_started_are_tried_a_few_times(bench: MakeBench) -> None:
    place = bench(1, lambda *_: (1.0, Gone("killed")))
    place.crew.unable = Gone("Traceback\n ...\nModuleNotFoundError: No module named 'fedfor'\n")
    with pytest.raises(FedforError, match=r"cannot be started .*: ModuleNotFoundError: No .*; is"):
        place.carry_out([piece(0, 0)])
    assert place.crew.hired == MOST_LOST_AT_START + 1


def test_who_is_gone_of_those_who_seem_idle_is_found_out(bench: MakeBench) -> None:
    """Also who is there and says nothing: it is not waited for without end."""
    place = bench(3, as_expected)
    place.crew.members[1].actor.silent = NEVER
    place.crew.members[2].busy = "at work"  # and asked nothing
    place.crew.members[2].actor.silent = NEVER
    place.dispatch.settle()
    assert sorted(place.crew.members) == [0, 2]
    assert place.ray.killed == [1]
    assert place.dispatch.lost == ["worker 1 on host-1 was lost, and with it a part of adding up"]
    assert place.crew.lanes is None
    assert place.ray.now < 60


def test_with_nobody_left_those_who_come_are_waited_for(bench: MakeBench) -> None:
    place = bench(1, as_expected)
    place.crew.members[0].actor.silent = NEVER
    for _ in range(50):
        place.dispatch.settle()
    assert sorted(place.crew.members) == [1]


# What is late


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    class Clock:
        seconds = 0.0

        def monotonic(self) -> float:
            return self.seconds

    clock = Clock()
    monkeypatch.setattr(dispatch, "time", clock)
    return lambda seconds: setattr(clock, "seconds", seconds)


def at_work(first: int, cost: float, *since: float) -> dict[Piece, _Open]:
    it = piece(first, cost=cost)
    return {it: _Open(it, dict(enumerate(since)))}


def test_late_is_what_takes_much_longer_than_it_should(now: Callable[[float], None]) -> None:
    waiting = at_work(0, 4.0, 10.0)
    for seconds, is_late in ((10.0, False), (16.4, False), (16.6, True), (1000.0, True)):
        now(seconds)
        assert (_late(waiting, [], in_seconds=True) is not None) == is_late


def test_where_nothing_is_known_nobody_is_waited_for_without_end(
    now: Callable[[float], None],
) -> None:
    """As in the first test of a model, which is a piece of its own."""
    waiting = at_work(0, 4.0, 10.0)
    for seconds, is_late in ((10.1, False), (69.9, False), (70.1, True)):
        now(seconds)
        assert (_late(waiting, [], in_seconds=False) is not None) == is_late


def test_without_seconds_what_is_done_tells_what_the_rest_should_take(
    now: Callable[[float], None],
) -> None:
    """By the fastest, as slow ones are what is looked for; where seconds are known, by those."""
    waiting = at_work(0, 4.0, 0.0)
    for seconds, is_late in ((12.4, False), (12.6, True)):
        now(seconds)
        assert (_late(waiting, [5.0, 2.0, 9.0], in_seconds=False) is not None) == is_late
    now(6.6)
    assert _late(waiting, [5.0, 2.0], in_seconds=True) is not None


def test_late_is_only_what_one_alone_is_at(now: Callable[[float], None]) -> None:
    now(100.0)
    nobody, one, two = at_work(0, 1.0), at_work(1, 1.0, 99.0), at_work(2, 1.0, 0.0, 0.0)
    assert _late({**nobody, **one, **two}, [], in_seconds=True) is None
    worse, worst = at_work(3, 1.0, 90.0), at_work(4, 50.0, 0.0)
    found = _late({**nobody, **two, **worse, **worst}, [], in_seconds=True)
    assert found is not None
    assert found.first == 4
