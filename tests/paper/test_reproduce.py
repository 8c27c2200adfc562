"""fedfor reproduce and fedfor table as people use them."""

import json
from pathlib import Path

import pytest

from fedfor.errors import FolderError
from fedfor.paper.reproduce import reproduce
from fedfor.paper.results import load_results
from fedfor.paper.study import load_study

from ..conftest import Cli
from .made import mini, results


def test_a_study_is_run_told_and_saved(fedfor: Cli, tmp_path: Path) -> None:
    code, out, _ = fedfor("reproduce", mini(tmp_path), "--out", "runs/mini", "-w", "1")
    assert code == 0
    assert "E=1, FedAvg, seed 0: best" in out
    assert "| | E=1, t=1 | E=1, t=2 | E=2, t=1 | E=2, t=2 |" in out
    assert "8 runs" in out
    saved = json.loads(Path("runs/mini/results.json").read_text())
    assert len(saved["cells"]) == 8
    assert saved["study"]["title"] == "Mini"
    (made,) = saved["made"]
    assert made["command"].startswith("fedfor reproduce")
    assert made["device"].startswith("cpu")
    assert {"commit", "torch", "python", "numpy"} <= made.keys()
    code, table, _ = fedfor("table", "runs/mini", "--format", "csv")
    assert code == 0
    assert len(table.splitlines()) == 1 + 2 * 4


def test_it_goes_on_where_it_was_and_can_be_added_to(fedfor: Cli, tmp_path: Path) -> None:
    path = mini(tmp_path)
    start = ("reproduce", path, "--out", "runs/mini", "-w", "1")
    assert fedfor(*start, "--epochs", "1", "--seeds", "1", "-a", "fedavg")[0] == 0
    (first,) = Path("runs/mini").glob("*/*/*/summary.json")
    before = first.stat().st_mtime_ns
    code, out, _ = fedfor(*start)
    assert code == 0
    assert "8 runs" in out
    assert first.stat().st_mtime_ns == before
    code, out, _ = fedfor(*start, "--seeds", "5,", "-a", "fedprox,mu=0.1")  # one more row and seed
    assert code == 0
    assert "10 runs" in out  # all that is there
    assert out.count("fedprox,mu=0.1, seed 5") == 2
    saved = load_results([Path("runs/mini")])
    commands = {o.key: saved.made[o.made]["command"] for o in saved.cells}
    assert (
        "--seeds 1 -a fedavg" in commands["E=1", "FedAvg", 0]
    )  # what made it, not what came later
    assert "--seeds 5, -a fedprox" in commands["E=2", "fedprox,mu=0.1", 5]


def test_a_folder_with_other_settings_is_refused(fedfor: Cli, tmp_path: Path) -> None:
    path = mini(tmp_path)
    assert fedfor("reproduce", path, "-o", "r", "--seeds", "1", "--epochs", "1")[0] == 0
    code, _, err = fedfor("reproduce", path, "-o", "r", "--set", "training.lr=0.5")
    assert code == 2
    assert "was run with another 'training'" in err
    study = load_study(str(path)).with_settings(["rounds=9"])
    with pytest.raises(FolderError, match="another 'rounds'"):
        reproduce(study, study.cells(Path("r")), Path("r"), 1, {})


def test_what_cannot_be_saved_is_refused_before_it_is_run(fedfor: Cli, tmp_path: Path) -> None:
    path = mini(tmp_path)
    start = ("reproduce", path, "-o", "r", "--seeds", "1", "--epochs", "1")
    assert fedfor(*start, "-a", "fedavg", "--set", "rounds=3")[0] == 0
    code, out, err = fedfor(*start, "-a", "fedfor-paper")
    assert (code, out) == (2, "")
    assert "r/results.json: results of mini (rounds=3) and of mini (as it is) do not go" in err
    assert "choose another folder with --out" in err
    assert not list(Path("r").glob("*/fedfor-paper"))


def test_how_it_is_run_does_not_make_another_study_of_it(fedfor: Cli, tmp_path: Path) -> None:
    path = mini(tmp_path)
    start = ("reproduce", path, "-o", "r", "--seeds", "1", "--epochs", "1")
    assert fedfor(*start, "-a", "fedavg", "--set", "lanes=2", "--set", "threads=1")[0] == 0
    code, out, _ = fedfor(*start, "-a", "fedfor-paper", "--set", "lanes = 1")
    assert code == 0
    assert "Not as the study is written" not in out
    assert len(load_results([Path("r")]).cells) == 2
    assert "lanes = 1" in next(Path("r").glob("*/fedfor-paper/*/config.toml")).read_text()
    code, _, err = fedfor(*start, "--set", "lanes=0")
    assert (code, err.count("\n")) == (2, 1)


def test_what_is_done_is_saved_when_it_is_stopped(
    fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mini(tmp_path)
    assert fedfor("reproduce", path, "-o", "r", "--seeds", "1", "--epochs", "1")[0] == 0
    Path("r/results.json").unlink()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedfor.paper.reproduce.run_bundles", stop)
    code, _, err = fedfor("reproduce", path, "-o", "r")
    assert code == 130
    assert "stopped; 2 runs are done and kept, what was cut off starts again, go on with" in err
    assert len(load_results([Path("r")]).cells) == 2


def test_mistakes_are_told_before_anything_is_run(fedfor: Cli, tmp_path: Path) -> None:
    path = mini(tmp_path)
    for words, sentence in (
        (["nothing"], "there is no study 'nothing'"),
        ([path, "--epochs", "3"], "--epochs 3: mini has 1, 2"),
        ([path, "--epochs", "x"], "--epochs x: write whole numbers"),
        ([path, "-a", "fedavgg"], "did you mean 'fedavg'"),
        ([path, "--seeds", "x"], "--seeds x"),
        ([path, "--set", "model.name=alexnet-bn"], "alexnet-bn"),
        ([path, "--precision", "fp7"], "precision"),
        ([path, "--set", "lanes=none"], "lanes"),
        (["prior-shift", "--data-root", tmp_path], "fedfor data get cifar10"),
    ):
        code, _, err = fedfor("reproduce", *words, "--out", "runs/x")
        assert code == 2, words
        assert sentence in err
        assert err.count("\n") == 1, err
        assert not Path("runs/x").exists()


def test_tables_of_saved_results(fedfor: Cli, tmp_path: Path) -> None:
    results().save(tmp_path / "made.json")
    code, out, _ = fedfor("table", "made.json", "--against", "paper", "--gain-over", "FedAvg")
    assert code == 0
    assert "difference, deviations" in out
    code, _, _ = fedfor("table", "made.json", "--figure", "made.png")
    assert code == 0
    assert Path("made.png").is_file()
    for words, sentence in (
        (["none.json"], "there are no results in none.json"),
        (["made.json", "--format", "word"], "--format word: it must be one of"),
        (["made.json", "--against", "me"], "--against me"),
        (["made.json", "--metrics", "x"], "--metrics x"),
        (["made.json", "--figure", "x.png", "--metrics", "late"], "--metrics, --gain-over and"),
    ):
        code, _, err = fedfor("table", *words)
        assert code == 2
        assert sentence in err
