"""A tracker that fails never stops a run, nor changes it."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from fedfor.errors import ConfigError
from fedfor.tracking import follow, known_trackers, tracking

from ..conftest import Cli
from ..processes import HANG, is_alive, wait_until
from ..test_cli import SMALL
from .made import finish, record, write
from .trackers import witnessed

pytestmark = pytest.mark.processes

HERE = "tests.tracking.trackers"


def count(folder: Path, what: str) -> int:
    return len(witnessed(folder, what)) if (folder / "witness.jsonl").is_file() else 0


@pytest.fixture(scope="module")
def untracked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The same run without a tracker."""
    from fedfor.experiments.folder import RunFolder
    from fedfor.experiments.load import load_config, read_toml
    from fedfor.experiments.run import run_in_folder, start_run

    folder = RunFolder(tmp_path_factory.mktemp("run") / "r")
    start_run(folder, load_config(read_toml("prior-shift"), SMALL[1::2]))
    run_in_folder(folder)
    return folder.summary() or {}


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(
    ("tracker", "words"),
    [
        ("RaisesInStart", "ValueError: no such server (/"),
        ("RaisesInLog", "KeyError: 'accuracy' (/"),
        ("RaisesInEnd", "OSError: disk full (/"),
        ("Exits", "SystemExit: 3 (/"),
        ("IsInterrupted", "KeyboardInterrupt: "),
        ("Crashes", "its process ended with code -9"),
        ("Leaves", "its process ended with code 0"),
    ],
)
def test_the_run_ends_as_without_it(
    fedfor: Cli, untracked: dict[str, object], tracker: str, words: str
) -> None:
    name = f"{HERE}:{tracker}"
    code, out, err = fedfor("run", "prior-shift", *SMALL, "-o", "r", "--track", name)
    assert code == 0
    assert "Everything is in r" in out
    assert f"warning: {name} failed and is left out; the run is unaffected: {words}" in err
    assert err.count("warning") == 1
    assert "Traceback" not in err
    summary = json.loads(Path("r/summary.json").read_text())
    assert summary["model_sha256"] == untracked["model_sha256"]
    assert summary["best"] == untracked["best"]


@pytest.mark.filterwarnings("always")
def test_a_run_with_one_that_hangs_ends(
    fedfor: Cli, monkeypatch: pytest.MonkeyPatch, untracked: dict[str, object]
) -> None:
    name = f"{HERE}:HangsInLog"
    monkeypatch.setattr(tracking._Follower, "wait", lambda *_: False)  # the time is over
    code, _, err = fedfor("run", "prior-shift", *SMALL, "-o", "r", "--track", name)
    assert code == 0
    again = f"fedfor resume r --track {name}"
    assert (
        f"{name} was not done after {HANG:.0f} s and was stopped; for what it lacks: {again}" in err
    )
    assert err.count("warning") == 1
    summary = json.loads(Path("r/summary.json").read_text())
    assert summary["model_sha256"] == untracked["model_sha256"]


@pytest.mark.parametrize("tracker", ["HangsInStart", "HangsInLog", "HangsInEnd"])
def test_one_that_hangs_is_stopped_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    write(tmp_path, [record(1), record(2)])
    wait = tracking._Follower.wait

    def over_for_one(follower: Any, seconds: float) -> bool:
        """The time of the one that hangs is over, once the other has ended."""
        return follower.name == f"{HERE}:Witness" and wait(follower, HANG)

    monkeypatch.setattr(tracking._Follower, "wait", over_for_one)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with follow([f"{HERE}:{tracker}", f"{HERE}:Witness"], tmp_path):
            wait_until(lambda: count(tmp_path, "start") == 2, "both have started")
            finish(tmp_path)
            wait_until(
                lambda: count(tmp_path, "pid") == count(tmp_path, "end") == 1,
                "one hangs, the other has come to the end",
            )
    (sentence,) = (str(warning.message) for warning in told)
    assert sentence == f"{HERE}:{tracker} was not done after {HANG:.0f} s and was stopped"
    (pid,) = witnessed(tmp_path, "pid")
    assert not is_alive(pid)


def test_where_warnings_are_errors_it_is_a_line_still(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [record(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with follow(f"{HERE}:RaisesInStart", tmp_path):
            pass
    assert "ValueError: no such server" in capsys.readouterr().err


def test_an_interpreter_that_cannot_be_started_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.warns(UserWarning, match="Witness cannot be started"):
        follow(f"{HERE}:Witness", tmp_path).__enter__()


def test_what_a_tracker_prints_or_asks_disturbs_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [record(1)])
    finish(tmp_path)
    with follow(f"{HERE}:Prints", tmp_path):
        pass
    out, err = capfd.readouterr()
    assert out == ""
    assert "words on standard output" in err
    assert len(witnessed(tmp_path, "round")) == 1


def test_failures_are_told_while_the_run_goes_on(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    calls: list[int] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with follow(f"{HERE}:RaisesInLog", tmp_path) as trackers:
            on_round = trackers.beside(calls.append)
            wait_until(lambda: on_round(1) or bool(told), "its failure is told")
        assert len(told) == 1
    assert calls


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tensorbord", "there is no such tracker; did you mean 'tensorboard'?"),
        ("x", "known are: mlflow, tensorboard, wandb"),
        ("nowhere:Tracker", "cannot import 'nowhere'"),
        (f"{HERE}:Gone", "has no 'Gone'"),
        (f"{HERE}:NoTracker", "has no method 'log'; a tracker is a class with start, log and end"),
        (f"{HERE}:function", "no class; a tracker is a class"),
    ],
)
def test_a_mistake_is_told_before_anything_has_run(fedfor: Cli, name: str, words: str) -> None:
    for command in (["run"], ["compare"], ["reproduce"]):
        code, _, err = fedfor(*command, "prior-shift", "-o", "r", "--track", name)
        assert code == 2
        assert err.startswith("error: --track")
        assert words in err
        assert err.count("\n") == 1
        assert not Path("r").exists()


@pytest.mark.parametrize(
    ("tracker", "package"),
    [
        ("tensorboard", "tensorboard"),
        ("wandb", "wandb"),
        ("mlflow", "mlflow"),
        ("mlflow", "sqlalchemy"),
        ("mlflow", "alembic"),
    ],
)
def test_a_missing_library_is_told_before_anything_has_run(
    fedfor: Cli, monkeypatch: pytest.MonkeyPatch, tracker: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = fedfor("run", "prior-shift", *SMALL, "-o", "r", "--track", tracker)
    assert code == 2
    assert err == f"error: --track {tracker} needs {package}: pip install 'fedfor[track]'\n"
    assert not Path("r").exists()


def test_a_folder_of_that_name_is_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B makes a folder `wandb` where one works, which Python would import as a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    (tmp_path / "wandb").mkdir()
    with pytest.raises(ConfigError, match="--track wandb needs wandb"):
        known_trackers(["wandb"])


def test_mlflow_with_a_server_needs_no_database_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert known_trackers(["mlflow", "mlflow"]) == ["mlflow"]
