"""What a pool makes of answers, and how it cuts, without a cluster."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fedfor.engines.engine import Roster
from fedfor.engines.ray.costs import WORTH_SPLITTING, Costs, Ledger, Piece, Took
from fedfor.engines.ray.crew import Member
from fedfor.engines.ray.dispatch import Answer
from fedfor.engines.ray.engine import RayEngine, RoundJob
from fedfor.engines.ray.merge import LostSumsError
from fedfor.engines.ray.orders import Problem, Report
from fedfor.engines.ray.pool import Pool
from fedfor.errors import ConfigError, FedforError
from fedfor.experiments.store import MemoryStore

from .alone import CLIENTS, Driver

pytestmark = pytest.mark.fast


@pytest.fixture
def pool() -> Pool:
    pool = Pool("ray", 2, gpus=False)
    pool.crew.wanted = 2
    return pool


def test_the_problem_of_the_first_client_ends_a_round(pool: Pool) -> None:
    """As if one had been trained after another, whichever worker was the first to tell."""
    answers = {}
    for first, last, leaf in ((6, 9, 7), (0, 3, None), (3, 6, 4)):
        problem = None if leaf is None else Problem(leaf, ConfigError(f"client {leaf} is ill"))
        piece = Piece(0, first, last, 1.0)
        answers[piece] = Answer(0, Report(problem=problem), (), 1.0)
    job = SimpleNamespace(answers=answers, error=None, summed=None)
    assert pool._add_up(cast("Any", job)) == []
    assert str(job.error) == "client 4 is ill"
    assert job.summed is None


def test_sums_that_nobody_can_add_up_end_the_run(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers may run out of memory at it: they are not started for it without end."""
    settled = []
    monkeypatch.setattr(pool.dispatch, "settle", lambda: settled.append(True))

    def collect() -> None:
        raise LostSumsError([]) from MemoryError("Unable to allocate 3.2 GiB")

    roster = SimpleNamespace(round=7)
    job = SimpleNamespace(answers={}, collect=collect, roster=roster)
    with pytest.raises(FedforError, match=r"round 7 cannot be added .* 4 tries .*3\.2 GiB.* fewer"):
        pool._add_up(cast("Any", job))
    assert len(settled) == 3


def job(costs: Costs, in_seconds: bool) -> Any:
    ledger = Ledger()
    if in_seconds:
        ledger.learn([Took(0, [0], [1.0], [1.0])])
    return SimpleNamespace(costs=lambda: costs, engine=SimpleNamespace(ledger=ledger))


@pytest.mark.parametrize(
    ("seconds", "known", "split"),
    [
        (2 * WORTH_SPLITTING + 0.1, True, True),
        (2 * WORTH_SPLITTING - 0.1, True, False),
        (2 * WORTH_SPLITTING - 0.1, False, True),
    ],
)
def test_a_part_is_left_for_whoever_is_done_where_shares_are_long(
    pool: Pool, seconds: float, known: bool, split: bool
) -> None:
    """Or where nobody knows how long they are."""
    jobs = [job(np.full(40, seconds / 60), known), job(np.full(20, seconds / 60), True)]
    pieces = pool._cut_rounds(jobs)
    assert (None in {piece.owner for piece in pieces}) == split
    assert sum(piece.last - piece.first for piece in pieces) == 60


def test_one_worker_alone_leaves_nothing_to_others(pool: Pool) -> None:
    pool.crew.wanted = 1
    pieces = pool._cut_rounds([job(np.full(40, 10.0), True)])
    assert [(piece.first, piece.last, piece.owner) for piece in pieces] == [(0, 40, 0)]


def test_a_fast_worker_is_cut_for_as_it_was_measured(pool: Pool) -> None:
    pool.speeds[1] = 3.0
    pieces = pool._cut_rounds([job(np.full(40, 0.001), True)])
    assert [(piece.last - piece.first, piece.owner) for piece in pieces] == [(10, 0), (30, 1)]


def test_what_one_run_learns_of_workers_serves_the_others(pool: Pool) -> None:
    federation, store = Driver().federation, MemoryStore()
    first, second = (RayEngine(pool, federation, block=1, states=store) for _ in range(2))
    for _ in range(2):
        first.ledger.learn([Took(0, [0, 1], [1.0] * 2, [1.0] * 2), Took(1, [2], [1.0], [3.0])])
        first.ledger.learn([Took(0, [2], [1.0], [1.0]), Took(1, [0, 1], [1.0] * 2, [3.0] * 2)])
    assert pool.speeds[1] < pool.speeds[0]
    assert second.ledger.speed(1) == pool.speeds[1]


def test_a_record_has_the_memory_of_each_worker_also_of_one_without_a_slice(pool: Pool) -> None:
    """Whoever is done first may take all: the other is there still, and holds what it holds."""
    driver = Driver()
    engine = RayEngine(pool, driver.federation, block=1, states=MemoryStore())
    pool.crew.members = {0: Member(0, None, memory=500), 1: Member(1, None, memory=300)}

    def record(memory: int) -> list[dict[str, Any]]:
        roster = Roster(1, CLIENTS, driver.population, None)
        job = RoundJob(engine, driver.server.message(), roster)
        report = Report(seconds=[0.0] * len(CLIENTS), memory=memory)
        job.answers[Piece(0, 0, len(CLIENTS), 1.0)] = Answer(0, report, (), 1.0)
        job.learn()
        return cast("list[dict[str, Any]]", job._told()["workers"])

    idle = {"worker": 1, "busy": 0.0, "clients": 0, "memory": 300}
    for memory in (700, 600):
        assert record(memory) == [
            {"worker": 0, "busy": 0.0, "clients": len(CLIENTS), "memory": memory},
            idle,
        ]
    assert pool.crew.members[0].memory == 600
