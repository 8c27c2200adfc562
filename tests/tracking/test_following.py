"""A tracker is told each round once, whatever happens to the run and its folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedfor.errors import FolderError
from fedfor.tracking import Round, Run
from fedfor.tracking.following import Followed
from fedfor.tracking.numbers import fitting

from .made import ODD, append, config, finish, odd_record, record, write

pytestmark = pytest.mark.fast


class Listener:
    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.rounds: list[Round] = []
        self.ends: list[Mapping[str, Any] | None] = []

    def start(self, run: Run) -> dict[str, str]:
        self.runs.append(run)
        return {"id": "abc"}

    def log(self, rounds: Sequence[Round]) -> None:
        self.rounds += rounds

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self.ends.append(summary)

    @property
    def numbers(self) -> list[int]:
        return [r.number for r in self.rounds]


def following(folder: Path, **about: Any) -> tuple[Listener, Followed]:
    listener = Listener()
    return listener, Followed({"folder": str(folder), **about}, "listener", lambda: listener)


def test_two_processes_do_not_tell_the_same_rounds(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    first, one = following(tmp_path)
    one.advance(False)
    second, other = following(tmp_path)
    append(tmp_path, record(2))
    other.advance(False)  # waits
    with pytest.raises(FolderError, match="another process tracks"):
        other.advance(True)
    one.advance(True)
    append(tmp_path, record(3))
    other.advance(True)
    assert (first.numbers, second.numbers) == ([1, 2], [3])


def test_a_run_that_diverged_in_its_first_round_is_told(tmp_path: Path) -> None:
    write(tmp_path, [])
    (tmp_path / "rounds.jsonl").unlink()
    listener, run = following(tmp_path)
    run.advance(False)
    assert not (tmp_path / "tracking").exists()
    finish(tmp_path, diverged="in round 1")
    run.advance(False)
    assert [e["diverged"] for e in listener.ends if e] == ["in round 1"]


def test_rounds_are_told_once_as_they_come(tmp_path: Path) -> None:
    listener, run = following(tmp_path / "r", name="mine", group="fedfor,alpha=2")
    run.advance(False)  # there is no folder yet
    assert not (tmp_path / "r").exists()
    write(tmp_path / "r", [])
    run.advance(False)
    assert listener.runs == []
    append(tmp_path / "r", record(1))
    run.advance(False)
    run.advance(False)
    append(tmp_path / "r", record(2), record(3))
    run.advance(False)
    assert listener.numbers == [1, 2, 3]
    assert [r.record for r in listener.rounds] == [record(t) for t in (1, 2, 3)]
    (told,) = listener.runs
    assert (told.name, told.group, told.algorithm, told.seed) == (
        "mine",
        "fedfor,alpha=2",
        "fedfor",
        "4",
    )
    assert told.config == config()
    assert told.settings["training.lr"] == 0.1
    assert told.settings["training.augment"] == '["flip"]'
    assert (told.first, told.kept) == (1, None)
    assert listener.ends == []
    finish(tmp_path / "r")
    run.advance(False)
    assert run.is_over
    assert [e["best"] for e in listener.ends if e] == [0.3]


def test_a_half_written_line_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    listener, run = following(tmp_path)
    line = json.dumps(record(2)) + "\n"
    with (tmp_path / "rounds.jsonl").open("a") as file:
        for part in (line[:9], line[9:-1], line[-1:]):
            run.advance(False)
            assert listener.numbers == [1]
            file.write(part)
            file.flush()
    run.advance(False)
    assert listener.numbers == [1, 2]


def test_a_resume_that_writes_the_file_anew_tells_no_round_twice(tmp_path: Path) -> None:
    write(tmp_path, [record(t) for t in (1, 2, 3)])
    listener, run = following(tmp_path)
    run.advance(False)
    # Between two looks: cut back to round 1 by another file in its place, and grown beyond.
    (tmp_path / "other").write_text(
        "".join(json.dumps(record(t, seconds=9.25)) + "\n" for t in (1, 2, 3, 4))
    )
    (tmp_path / "other").replace(tmp_path / "rounds.jsonl")
    run.advance(False)
    assert listener.numbers == [1, 2, 3, 4]
    assert listener.rounds[-1].numbers["total/seconds"] == 4 * 9.25


def test_another_process_goes_on_after_the_last_round_told(tmp_path: Path) -> None:
    write(tmp_path, [record(1), record(2)])
    before, run = following(tmp_path)
    run.advance(True)
    assert before.ends == [None]  # it was cut off
    append(tmp_path, record(3))
    finish(tmp_path)
    listener, run = following(tmp_path)
    run.advance(True)
    assert listener.numbers == [3]
    assert (listener.runs[0].first, listener.runs[0].kept) == (3, {"id": "abc"})
    assert listener.rounds[0].numbers["total/down_cross_device"] == 300
    assert listener.ends[0] is not None
    nothing, run = following(tmp_path)  # all of it is there
    run.advance(True)
    assert (nothing.runs, nothing.ends) == ([], [])


def test_the_summary_of_a_run_that_is_made_longer_is_not_its_end(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    finish(tmp_path)
    listener, run = following(tmp_path)
    run.advance(False)
    assert listener.numbers == [1]
    assert not run.is_over
    (tmp_path / "summary.json").unlink()
    append(tmp_path, record(2))
    run.advance(False)
    finish(tmp_path, best=0.7, more="words")
    run.advance(False)
    assert [e["best"] for e in listener.ends if e] == [0.7]


def test_of_a_finished_run_all_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, [record(1), record(2)])
    finish(tmp_path)
    listener, run = following(tmp_path, done=True)
    run.advance(False)
    assert run.is_over
    assert listener.numbers == [1, 2]
    assert len(listener.ends) == 1


def test_an_end_that_a_tracker_missed_is_told_later(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    _, run = following(tmp_path)
    run.advance(False)  # and then its process was killed
    finish(tmp_path)
    listener, run = following(tmp_path)
    run.advance(True)
    assert listener.numbers == []
    assert len(listener.ends) == 1


@pytest.mark.parametrize("damage", ["", "{", '{"round": "x"}', "[]", "null"])
def test_a_damaged_memory_is_as_none(tmp_path: Path, damage: str) -> None:
    write(tmp_path, [record(1)])
    (tmp_path / "tracking").mkdir()
    (tmp_path / "tracking/listener.json").write_text(damage)
    listener, run = following(tmp_path)
    run.advance(False)
    assert listener.numbers == [1]


def test_a_folder_without_a_readable_config_is_tracked_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "r", [record(1)])
    (tmp_path / "r/config.toml").write_text("[")
    listener, run = following(tmp_path / "r")
    run.advance(False)
    assert (listener.runs[0].name, listener.runs[0].config) == ("r", {})


def test_numbers_are_flat_and_those_that_are_none_are_left_out(tmp_path: Path) -> None:
    huge = record(1, huge=10**400, text="words", flag=True)
    write(tmp_path, [huge | odd_record(1), record(2)])
    listener, run = following(tmp_path)
    run.advance(False)
    first, second = (r.numbers for r in listener.rounds)
    assert first["accuracy"] == 0.1
    assert first["up"] == 2**30 + 1
    assert (first["classes/0"], first["classes/2"]) == (0.5, 0.25)
    assert first["rejected"] == 2
    assert first[f"domains/{ODD[0]}"] == 0.1
    assert {"loss", "classes/1", "round", "huge", "text", "flag"}.isdisjoint(first)
    assert second["total/up"] == 2**31 + 3
    assert second["total/seconds"] == 1
    for name in first:
        name.encode()


def test_names_are_fitted_and_no_two_become_one() -> None:
    assert fitting("training.lr", r"[^\w.]", 20) == "training.lr"
    fitted = [fitting(name, r"[^\w]", 20) for name in ("a<b", "a>b", "a_b", "x" * 21, "x" * 22)]
    assert len(set(fitted)) == 5
    assert max(map(len, fitted)) == 20
    assert all(name.replace("-", "_").isidentifier() for name in fitted)
