"""What is said of runs: how far, how fast, how long still, and whether anybody is at work."""

import os
from pathlib import Path
from typing import Any

import pytest

from fedfor.experiments.folder import RunFolder, write_json
from fedfor.watch import follow
from fedfor.watch.follow import Follower
from fedfor.watch.status import Status, duration

from ..report.made import made_comparison, made_record, made_run

pytestmark = pytest.mark.fast

T0 = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("LOOK_EVERY", "SEARCH_EVERY", "REST"):
        monkeypatch.setattr(follow, pause, 0.0)


class Clock:
    """Files that were written when we say so, and a follower that believes it."""

    def __init__(self, path: Path) -> None:
        self.now, self.path = T0, path
        self.follower = Follower(path, lambda: self.now)
        self.stamp()

    def stamp(self) -> None:
        """All that is there was written now."""
        for file in (self.path, *self.path.rglob("*")):
            os.utime(file, (self.now, self.now))

    def add(self, run: Path, t: int, at: float, **more: object) -> None:
        RunFolder(run).append({**made_record(t, 0.5), **more})
        self.now = T0 + at
        os.utime(run / "rounds.jsonl", (self.now, self.now))

    def look(self, at: float | None = None) -> Status:
        self.now = self.now if at is None else T0 + at
        return self.follower.look()


def begun(path: Path, *, vector: bool = False, **more: Any) -> Path:
    made_run(path, done=False, **more)
    (path / ".lock").touch()
    if vector:
        write_json(path / "environment.json", {"engine": "vector"})
    return path


def test_the_time_left_is_that_of_the_rounds_as_recorded_until_they_are_watched(
    tmp_path: Path,
) -> None:
    path = begun(tmp_path / "r", rounds=4, planned=10)
    clock = Clock(path)
    status = clock.look()
    assert (status.left, status.runs[0].left, status.runs[0].seconds_a_round) == (6.0, 6.0, 1.0)
    for t, at in ((5, 3.0), (6, 6.0)):  # a second each, and two more for a checkpoint
        clock.add(path, t, at)
        status = clock.look()
    assert status.runs[0].seconds_a_round == pytest.approx(3.0)
    assert status.left == pytest.approx(12.0)


def test_runs_side_by_side_take_the_time_of_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        begun(tmp_path / name, rounds=5, planned=15)
    made_run(tmp_path / "c", rounds=0, planned=15, done=False)
    status = Clock(tmp_path).look()
    assert [run.state for run in status.runs] == ["running", "running", "waiting"]
    assert [run.left for run in status.runs] == [10.0, 10.0, None]
    assert status.left == (10 + 10 + 15) / 2


def test_runs_of_one_stack_each_tell_their_share_of_its_time(tmp_path: Path) -> None:
    runs = [begun(tmp_path / name, rounds=5, planned=15, vector=True) for name in "ab"]
    clock = Clock(tmp_path)
    status = clock.look()
    assert status.runs[0].seconds_a_round == 2.0
    assert (status.left, status.runs[0].left) == (20.0, 20.0)
    for run in runs:
        clock.add(run, 6, at=4.0)
    status = clock.look()
    assert status.runs[0].seconds_a_round == pytest.approx(4.0)
    assert status.left == pytest.approx(9 * 4.0)


def test_a_run_that_waits_takes_what_others_do_epoch_for_epoch(tmp_path: Path) -> None:
    begun(tmp_path / "a", rounds=5, planned=10)
    epochs = {"training": {"epochs": 20}}  # four times as many
    made_run(tmp_path / "b", rounds=0, planned=10, done=False, settings=epochs)
    assert Clock(tmp_path).look().left == 5 + 10 * 4


def test_without_any_round_no_time_is_made_up(tmp_path: Path) -> None:
    begun(tmp_path / "r", rounds=0, planned=9)
    status = Clock(tmp_path / "r").look()
    assert (status.state, status.left, status.runs[0].accuracy) == ("running", None, None)
    assert status.words == "Its first round is not done yet."


def test_a_run_without_new_rounds_for_long_may_have_been_stopped(tmp_path: Path) -> None:
    path = begun(tmp_path / "r r", rounds=3, planned=9)
    clock = Clock(path)
    assert clock.look(at=59).state == "running"
    status = clock.look(at=61)
    assert (status.state, status.runs[0].state) == ("quiet", "quiet")
    assert status.words.endswith(f"To go on: fedfor resume '{path}'")
    clock.add(path, 4, at=90)
    assert clock.look().state == "running"


def test_long_rounds_are_waited_for_longer(tmp_path: Path) -> None:
    path = begun(tmp_path / "r", rounds=3, planned=9, extra=lambda t: {"seconds": 10.0 * t})
    clock = Clock(path)
    assert clock.look(at=149).state == "running"
    assert clock.look(at=151).state == "quiet"


def test_how_to_go_on_is_told_for_each_kind_of_run(tmp_path: Path) -> None:
    comparison = made_comparison(tmp_path / "c", rounds=2, planned=4, done=False)
    clock = Clock(comparison)
    assert f"fedfor resume {comparison}" in clock.look(at=1000).words
    study = begun(tmp_path / "s", rounds=2, planned=4)
    write_json(study / "made.json", {"command": "fedfor reproduce digits"})
    assert clock.look().state == "quiet"
    assert Clock(study).look(at=1000).words.endswith("To go on: fedfor reproduce digits")
    flower = begun(tmp_path / "f", rounds=2, planned=4, flower=True)
    assert f"start its app again with the folder {flower}" in Clock(flower).look(at=1000).words


def test_a_sweep_goes_on_as_long_as_one_of_its_runs_does(tmp_path: Path) -> None:
    a = begun(tmp_path / "a", rounds=3, planned=9)
    begun(tmp_path / "b", rounds=3, planned=9)
    clock = Clock(tmp_path)
    clock.look()
    clock.add(a, 4, at=100)
    status = clock.look()
    assert [run.state for run in status.runs] == ["running", "quiet"]
    assert status.state == "running"
    assert status.words == "0 of 2 runs have ended; 1 had no new round for long."


def test_what_waits_is_begun_soon_or_nobody_is_there(tmp_path: Path) -> None:
    made_run(tmp_path / "a", rounds=3)
    made_run(tmp_path / "b", rounds=0, planned=3, done=False)
    clock = Clock(tmp_path)
    assert clock.look(at=5).state == "running"
    assert clock.look(at=2000).state == "quiet"


def test_a_run_that_failed_says_why_until_it_is_taken_up_again(tmp_path: Path) -> None:
    path = begun(tmp_path / "c" / "r", rounds=3, planned=9)
    made_run(tmp_path / "c" / "s", rounds=2, algorithm="fedfor", diverged=True, planned=9)
    clock = Clock(tmp_path / "c")
    (path / "error.txt").write_text("Traceback\n  ...\nMemoryError: out of it\n\n")
    os.utime(path / "error.txt", (T0 + 1, T0 + 1))
    status = clock.look(at=2)
    first, second = status.runs
    assert (first.state, first.last_failure) == ("failed", "MemoryError: out of it")
    assert (second.state, second.last_failure) == ("diverged", "fedfor diverged in round 3: NaN")
    assert status.words == "All 2 runs have ended (1 diverged, 1 failed)."
    assert (status.rounds_done, status.rounds_planned) == (5, 5)
    os.utime(path / ".lock", (T0 + 3, T0 + 3))
    status = clock.look(at=4)
    assert (status.state, status.runs[0].last_failure) == ("running", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "1 h 30 min"), (200_000, "2 d 7 h")],
)
def test_times_are_told_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
