"""Following a folder: what has come is seen, and nothing is done to the run."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w

from fedfor.errors import FolderError
from fedfor.experiments.folder import RunFolder
from fedfor.watch import follow, growing
from fedfor.watch.follow import Follower, require_watchable

from ..report.made import flower_extra, made_comparison, made_record, made_run

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("LOOK_EVERY", "SEARCH_EVERY", "REST"):
        monkeypatch.setattr(follow, pause, 0.0)


def add(path: Path, t: int, **more: object) -> None:
    RunFolder(path).append({**made_record(t, t / (t + 1)), **more})


def tree(path: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file): ((about := file.stat()).st_mtime_ns, about.st_size)
        for file in (path, *path.rglob("*"))
    }


def running(path: Path, rounds: int = 2, planned: int = 5, **more: object) -> Path:
    return made_run(path, rounds=rounds, planned=planned, done=False, **more)  # type: ignore[arg-type]


def test_lines_that_come_are_added_to_those_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reads = running(tmp_path / "r"), list[Path]()
    whole: Callable[..., object] = growing.read_run
    monkeypatch.setattr(growing, "read_run", lambda p, places: reads.append(p) or whole(p, places))
    follower = Follower(path)
    status = follower.look()
    assert (status.state, status.rounds_done, status.rounds_planned) == ("running", 2, 5)
    before = follower.revision
    assert follower.look() == status
    assert follower.revision == before
    for t in (3, 4):
        add(path, t)
        assert follower.look().rounds_done == t
        assert follower.revision == before + t - 2
    assert reads == [path]
    (run,) = follower.runs
    assert run.records == RunFolder(path).records()
    assert follower.look().runs[0].accuracy == 4 / 5


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = running(tmp_path / "r")
    follower = Follower(path)
    follower.look()
    line = (json.dumps(made_record(3, 0.5)) + "\n").encode()
    for part, rounds in ((line[:40], 2), (line[40:-1], 2), (line[-1:], 3)):
        with (path / "rounds.jsonl").open("ab") as file:
            file.write(part)
        assert follower.look().rounds_done == rounds


def test_a_damaged_line_is_told_and_passed_over(tmp_path: Path) -> None:
    path = running(tmp_path / "r")
    follower = Follower(path)
    follower.look()
    with (path / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 3, "sec\xff\n')
    assert follower.look().rounds_done == 2
    assert follower.runs[0].problems == ("1 of its lines in rounds.jsonl are damaged or cut short",)


def test_a_resumed_run_begins_again_where_its_checkpoint_is(tmp_path: Path) -> None:
    path = running(tmp_path / "r", rounds=4, planned=9)
    follower = Follower(path)
    assert follower.look().rounds_done == 4
    RunFolder(path).keep_records(2)
    assert follower.look().rounds_done == 2
    for t in (3, 4, 5):  # longer than before, and with other numbers, between two looks
        add(path, t, seconds=9.0)
    status = follower.look()
    assert status.rounds_done == 5
    assert [r["seconds"] for r in follower.runs[0].records] == [1.0, 1.0, 9.0, 9.0, 9.0]
    RunFolder(path).keep_records(2)
    for t in (3, 4, 5):
        add(path, t, seconds=7.0)
    follower.look()
    assert [r["seconds"] for r in follower.runs[0].records] == [1.0, 1.0, 7.0, 7.0, 7.0]


def test_the_end_is_seen_and_more_rounds_after_it(tmp_path: Path) -> None:
    path = running(tmp_path / "r", rounds=4, planned=5)
    follower = Follower(path)
    follower.look()
    add(path, 5)
    RunFolder(path).finish({"rounds": 5, "best": 0.8}, None)
    status = follower.look()
    assert (status.state, status.words) == ("ended", "The run has ended.")
    assert (status.runs[0].state, status.left) == ("done", None)
    RunFolder(path).summary_path.unlink()
    assert follower.look().state == "running"


@pytest.mark.parametrize("inside", [False, True])
def test_a_folder_that_is_moved_is_kept_in_mind_and_goes_on_when_back(
    tmp_path: Path, inside: bool
) -> None:
    """The folder itself, or the only run in it."""
    path = running(tmp_path / "top" / "r")
    follower = Follower(path.parent if inside else path)
    assert follower.look().state == "running"
    path.rename(tmp_path / "elsewhere")
    for _ in range(2):
        status = follower.look()
        assert (status.state, status.rounds_done) == ("gone", 2)
        assert "is gone since" in status.words
        assert len(follower.runs[0].records) == 2
    (tmp_path / "elsewhere").rename(path)
    assert follower.look().state == "running"
    add(path, 3)
    assert follower.look().rounds_done == 3


def test_something_new_takes_the_place_of_what_is_gone(tmp_path: Path) -> None:
    path = running(tmp_path / "r", rounds=4, algorithm="fedavg")
    follower = Follower(path)
    follower.look()
    shutil.rmtree(path)
    assert follower.look().state == "gone"
    running(path, rounds=1, algorithm="scaffold")
    status = follower.look()
    assert (status.state, status.rounds_done, status.runs[0].name) == ("running", 1, "scaffold")


def test_a_folder_that_is_still_to_come_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "to" / "come"
    follower = Follower(path)
    assert follower.look().words == f"There is no folder {path} yet; waiting for it."
    path.mkdir(parents=True)
    status = follower.look()
    assert (status.state, status.runs) == ("waiting", ())
    assert "no run in" in status.words
    running(path / "r")
    assert follower.look().state == "running"


def test_runs_come_and_go_while_a_sweep_is_followed(tmp_path: Path) -> None:
    running(tmp_path / "a", algorithm="fedavg")
    follower = Follower(tmp_path)
    assert follower.look().rounds_planned == 5
    running(tmp_path / "b" / "deep", algorithm="fedfor")
    status = follower.look()
    assert [(run.name, run.folder) for run in status.runs] == [
        ("fedavg", "a"),
        ("fedfor", str(Path("b/deep"))),
    ]
    shutil.rmtree(tmp_path / "a")
    assert [run.name for run in follower.look().runs] == ["fedfor"]


def test_runs_are_called_what_their_comparison_calls_them_even_if_it_comes_late(
    tmp_path: Path,
) -> None:
    path = made_comparison(tmp_path / "c", ["fedfor,alpha=2"], seeds=1, rounds=2, planned=4)
    toml = (path / "compare.toml").read_bytes()
    (path / "compare.toml").unlink()
    (path / "runs" / "fedfor,alpha=2" / "seed-0" / "summary.json").unlink()
    config = path / "runs" / "fedfor,alpha=2" / "seed-0" / "config.toml"
    config.write_text(config.read_text().replace('name = "fedfor,alpha=2"', 'name = "fedfor"'))
    follower = Follower(path)
    assert follower.look().runs[0].name == "fedfor"
    (path / "compare.toml").write_bytes(toml)
    assert follower.look().runs[0].name == "fedfor,alpha=2"


def test_what_cannot_be_read_now_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = running(tmp_path / "r")
    follower = Follower(path)
    follower.look()
    add(path, 3)

    def refuse(*_: object) -> None:
        raise PermissionError("being replaced")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        assert follower.look().rounds_done == 2
    assert follower.look().rounds_done == 3


def test_nothing_is_written_locked_or_kept_open(tmp_path: Path) -> None:
    path = made_comparison(tmp_path / "c", rounds=2, planned=4, done=False)
    before = tree(path)
    follower = Follower(path)
    for _ in range(3):
        follower.look()
    assert tree(path) == before
    if Path("/proc/self/fd").is_dir():
        targets = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        assert targets
        assert not [t for t in targets if t.is_relative_to(path)]


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    """Whoever may write a run folder must not read ours by it."""
    (tmp_path / "secret.toml").write_text('password = "hunter2"\n')
    good, bad = running(tmp_path / "top/good"), running(tmp_path / "top/bad")
    (bad / "config.toml").unlink()
    (bad / "config.toml").symlink_to(tmp_path / "secret.toml")
    (tmp_path / "top/more").symlink_to(tmp_path)
    follower = Follower(tmp_path / "top")
    status = follower.look()
    assert [run.path for run in follower.runs] == [good]
    assert f"Not read: {bad / 'config.toml'} leads out of the folder." in status.words
    assert follower.look() == status
    (bad / "config.toml").unlink()
    (bad / "config.toml").symlink_to(good / "config.toml")
    assert len(follower.look().runs) == 2


def test_names_are_not_read_from_above_the_folder(tmp_path: Path) -> None:
    path = made_comparison(tmp_path / "c", ["fedavg"], seeds=1, done=False)
    toml = {"compare": {"algorithms": ["fedavg"], "seeds": [0]}}
    (path / "compare.toml").write_text(tomli_w.dumps(toml))
    run = path / "runs" / "fedavg" / "seed-0"
    config = run / "config.toml"
    config.write_text(config.read_text().replace('name = "fedavg"', 'name = "other"'))
    assert Follower(path).look().runs[0].name == "fedavg"
    assert Follower(run).look().runs[0].name == "other"


def test_clients_of_a_federation_that_failed_are_counted_and_named(tmp_path: Path) -> None:
    path = running(tmp_path / "r", rounds=3, flower=True, extra=flower_extra)
    follower = Follower(path)
    (run,) = follower.look().runs
    assert (run.failed, run.last_failure) == (1, "round 2, node 7: it sent NaN")
    rejected = [{"node": "8", "why": "no reply"}, {"node": "9", "why": "of another round"}]
    add(path, 4, rejected=rejected, attempts=2)
    (run,) = follower.look().runs
    words = "round 4, node 9: of another round; round 4 took 2 attempts"
    assert (run.failed, run.last_failure) == (3, words)


@pytest.mark.parametrize("where", ["file", "foreign", "results"])
def test_what_no_run_can_be_in_is_refused_in_one_sentence(tmp_path: Path, where: str) -> None:
    path = tmp_path / "x"
    words = {"file": "is a file", "foreign": "holds no run", "results": "no runs that could be"}
    if where == "file":
        path.write_text("")
    else:
        path.mkdir()
        (path / ("results.json" if where == "results" else "letter.txt")).write_text("{}")
    with pytest.raises(FolderError, match=words[where]):
        require_watchable(path)


def test_what_a_run_may_come_into_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    (tmp_path / "beginning").mkdir()
    (tmp_path / "beginning" / "compare.toml").write_text("")
    running(tmp_path / "r")
    for name in ("nowhere/yet", "empty", "beginning", "r", "."):
        require_watchable(tmp_path / name)


def test_odd_files_in_a_run_folder_stop_nothing(tmp_path: Path) -> None:
    path = running(tmp_path / "r")
    follower = Follower(path)
    follower.look()
    (path / "config.toml").write_bytes(b"\xff[")
    (path / "summary.json").write_text("[1]")
    (path / "made.json").write_text("nothing")
    (path / "error.txt").write_bytes(b"\xff\n" * 5000)
    status = follower.look()
    assert status.runs[0].round == 2
    assert len(follower.runs[0].problems) == 2
    (path / "rounds.jsonl").unlink()
    os.mkfifo(path / "rounds.jsonl")  # would block whoever opens it
    assert follower.look().words == f"Nothing is read: {path / 'rounds.jsonl'} is no file."


def test_runs_stand_in_the_order_of_their_comparison(tmp_path: Path) -> None:
    path = made_comparison(tmp_path / "c", ["scaffold", "fedavg"], seeds=2)
    follower = Follower(path)
    assert [run.name for run in follower.look().runs] == ["scaffold"] * 2 + ["fedavg"] * 2
    assert [run.label for run in follower.runs] == ["scaffold"] * 2 + ["fedavg"] * 2
