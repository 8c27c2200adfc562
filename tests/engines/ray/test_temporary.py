"""Folders of clusters of one's own: whose they are, and when they go."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from filelock import FileLock

from fedfor.engines.ray.temporary import LOCK, PREFIX, Temporary


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return tmp_path


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def _hold(connection: Connection) -> None:
    temporary = Temporary()
    (temporary.path / "session").mkdir()
    (temporary.path / "session" / "log").write_text("what a cluster writes")
    connection.send(str(temporary.path))
    connection.recv()


def test_a_folder_is_gone_when_it_is_closed(place: Path) -> None:
    temporary = Temporary()
    assert temporary.path.parent == place
    assert temporary.path.name.startswith(PREFIX)
    (temporary.path / "session").mkdir()
    temporary.close()
    assert names(place) == []


def test_paths_are_short_unless_it_is_said_where(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_TMPDIR")
    monkeypatch.setattr("fedfor.engines.ray.temporary.SHORT", str(place))
    temporary = Temporary()
    assert temporary.path.parent == place
    temporary.close()


def test_two_at_once_leave_each_other_alone(place: Path) -> None:
    first, second = Temporary(), Temporary()
    assert first.path != second.path
    assert first.path.is_dir()
    second.close()
    assert names(place) == [first.path.name]
    first.close()
    assert names(place) == []


@pytest.mark.processes
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_what_a_killed_process_has_left_goes_when_the_next_comes(place: Path) -> None:
    here, there = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=_hold, args=(there,))
    other.start()
    try:
        left = Path(here.recv())
        mine = Temporary()
        assert (left / "session" / "log").is_file()  # it is in use
        mine.close()
        assert names(place) == [left.name]
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        other.join()
        assert (left / "session" / "log").is_file()  # nobody was there to take it away
        mine = Temporary()
        assert names(place) == [mine.path.name]
        mine.close()
    finally:
        other.kill()
        other.join()
        here.close()
        there.close()
    assert names(place) == []


def test_what_others_have_there_is_left_alone(place: Path) -> None:
    """A folder of another name, though it has a lock that nobody holds, and one without a lock."""
    for name in ("somebody", f"{PREFIX}older", "ray"):
        (place / name).mkdir()
    for name in ("somebody", "ray"):
        with FileLock(place / name / LOCK):
            pass
        (place / name / LOCK).touch()
    Temporary().close()
    assert names(place) == ["fedfor-ray-older", "ray", "somebody"]


def test_several_that_were_left_go_at_once(place: Path) -> None:
    for name in ("a", "b", "c"):
        (place / f"{PREFIX}{name}" / "deep" / "er").mkdir(parents=True)
        (place / f"{PREFIX}{name}" / LOCK).touch()
    temporary = Temporary()
    assert names(place) == [temporary.path.name]
    temporary.close()
