"""Tracking the runs of all commands, of Python and of Flower, whole and interrupted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import fedfor
import fedfor.flower
from fedfor.errors import FolderError
from fedfor.tracking import follow, track

from ..conftest import Cli, made_data
from ..flower.app import client_app, new_model
from ..flower.grid import InProcessGrid
from ..halting import after, halted
from ..paper.made import mini
from ..processes import HANG, wait_until
from ..test_cli import SMALL
from .trackers import witnessed

pytestmark = pytest.mark.processes

WITNESS = "tests.tracking.trackers:Witness"


def numbers_of(folder: Path) -> list[int]:
    return [told["number"] for told in witnessed(folder, "round")]


def test_a_comparison_is_one_tracked_run_for_each_folder(fedfor: Cli) -> None:
    words = ["compare", "prior-shift", "-a", "fedavg", "-a", "fedfor,alpha=2", "--seeds", "2"]
    words += [*SMALL, "-o", "c", "-w", "1"]
    code, _, err = fedfor(*words, "--track", WITNESS, "--track", "tensorboard")
    assert (code, err) == (0, "")
    for label in ("fedavg", "fedfor,alpha=2"):
        for seed in (0, 1):
            folder = Path(f"c/runs/{label}/seed-{seed}")
            (about,) = witnessed(folder, "start")
            assert about["name"] == f"{label}, seed {seed}"
            assert (about["group"], about["seed"]) == (label, str(seed))
            assert numbers_of(folder) == [1, 2]
            (summary,) = witnessed(folder, "end")
            assert summary == json.loads((folder / "summary.json").read_text())
            events = EventAccumulator(str(folder / "tensorboard"))
            events.Reload()
            (_, last) = events.Scalars("accuracy")
            assert last.value == pytest.approx(summary["final"], rel=1e-6)
    # Once more, nothing is left to tell.
    assert fedfor(*words, "--track", WITNESS)[0] == 0
    assert len(witnessed(Path("c/runs/fedavg/seed-0"), "start")) == 1


def test_what_was_done_untracked_is_told_when_it_is_tracked_later(fedfor: Cli) -> None:
    words = ["compare", "prior-shift", "-a", "fedavg", "--seeds", "1", *SMALL, "-o", "c"]
    assert fedfor(*words)[0] == 0
    code, out, err = fedfor("resume", "c", "--track", WITNESS)
    assert (code, err) == (0, "")
    assert "All 1 runs are there already" in out
    assert numbers_of(Path("c/runs/fedavg/seed-0")) == [1, 2]


def test_a_run_that_is_made_longer_goes_on_in_its_tracker(fedfor: Cli) -> None:
    assert fedfor("run", "prior-shift", *SMALL, "-o", "r", "--track", WITNESS)[0] == 0
    config = Path("r/config.toml")
    config.write_text(config.read_text().replace("rounds = 2", "rounds = 4"))
    assert fedfor("resume", "r", "--track", WITNESS)[0] == 0
    assert numbers_of(Path("r")) == [1, 2, 3, 4]
    first, second = witnessed(Path("r"), "start")
    assert (first["first"], first["kept"]) == (1, None)
    assert second["first"] == 3
    assert second["kept"]["id"].isdigit()
    assert [summary["rounds"] for summary in witnessed(Path("r"), "end")] == [2, 4]


def test_a_study_is_tracked_with_its_points_in_the_names(fedfor: Cli, tmp_path: Path) -> None:
    words = ["--seeds", "1", "--epochs", "1", "-a", "FedAvg", "-o", "s", "-w", "1"]
    code, _, err = fedfor("reproduce", mini(tmp_path), *words, "--track", WITNESS)
    assert (code, err) == (0, "")
    (path,) = Path("s").glob("*/*/*/witness.jsonl")
    (about,) = witnessed(path.parent, "start")
    assert about["name"] == "E=1, FedAvg, seed 0"
    assert about["group"] == "FedAvg"
    assert numbers_of(path.parent) == [1, 2]


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("run", signal.SIGINT),
        ("run", signal.SIGTERM),
        ("run", signal.SIGKILL),
        ("compare", signal.SIGINT),
    ],
)
def test_a_tracker_is_told_that_a_run_was_cut_off(tmp_path: Path, command: str, how: int) -> None:
    halted_at = tmp_path / "halted"
    words = ["prior-shift", "--set", "rounds=5", "--set", "population.cohort=3", "-o", "r"]
    words += ["--set", "model.name=tests.halting:halting_linear", "--set", "engine=serial"]
    words += ["--set", "training.epochs=1"]
    words += ["-a", "fedfor", "--seeds", "1"] if command == "compare" else []
    process = subprocess.Popen(
        [sys.executable, "-m", "fedfor.cli", command, *words, "--track", WITNESS],
        cwd=tmp_path,
        env=os.environ | after(40, halted_at),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    folder = tmp_path / ("r/runs/fedfor/seed-0" if command == "compare" else "r")
    try:
        wait_until(
            lambda: (folder / "witness.jsonl").is_file() and numbers_of(folder),
            "the tracker knows of a round",
            process,
        )
        wait_until(lambda: halted(halted_at), "the run halts in mid-round", process)
        done = len((folder / "rounds.jsonl").read_bytes().splitlines())
        wait_until(lambda: len(numbers_of(folder)) == done, "the tracker knows of all rounds")
        process.send_signal(how)
        _, err = process.communicate(timeout=HANG)  # the tracker's process holds this pipe too
    finally:
        process.kill()
    assert witnessed(folder, "end") == [None]
    assert not (folder / "summary.json").exists()
    if how != signal.SIGKILL:
        assert process.returncode == 130
        assert f"go on with: fedfor resume r --track {WITNESS}" in err.decode()
        assert numbers_of(folder) == list(range(1, done + 1))


def test_a_simulation_in_python_is_tracked(tmp_path: Path) -> None:
    clients = fedfor.data.iid_split(made_data(), 4, 0)
    options = {"rounds": 3, "cohort": 2, "engine": "serial", "lr": 0.05}
    with track([WITNESS], tmp_path / "r", {"algorithm": "fedfor", "seed": 7}) as on_round:
        history = fedfor.simulate("fedfor", clients, "linear", on_round=on_round, **options)
    told = [about["numbers"]["accuracy"] for about in witnessed(tmp_path / "r", "round")]
    assert told == history.accuracies
    (about,) = witnessed(tmp_path / "r", "start")
    assert (about["name"], about["algorithm"], about["seed"]) == ("r", "fedfor", "7")
    assert witnessed(tmp_path / "r", "end") == [{"rounds": 3, "best": history.best}]
    again = fedfor.simulate("fedfor", clients, "linear", **options)
    assert again.accuracies == history.accuracies
    with pytest.raises(FolderError, match="is not empty"), track(WITNESS, tmp_path / "r"):
        pass


def test_a_simulation_that_fails_is_told_as_cut_off(tmp_path: Path) -> None:
    def simulation(on_round: Callable[[dict[str, float]], None]) -> None:
        on_round({"round": 1, "accuracy": 0.5})
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), track(WITNESS, tmp_path / "r") as on_round:
        simulation(on_round)
    assert witnessed(tmp_path / "r", "end") == [None]


def test_records_that_cannot_be_written_do_not_stop_a_simulation(tmp_path: Path) -> None:
    with track(WITNESS, tmp_path / "r") as on_round:
        with pytest.warns(UserWarning, match="rounds.jsonl lacks something"):
            on_round({"round": 1, "accuracy": object()})
        on_round({"round": 2, "accuracy": 0.5})
    assert numbers_of(tmp_path / "r") == [2]


def test_a_federation_on_flower_is_tracked_by_its_folder(tmp_path: Path) -> None:
    nodes = {"min_available_nodes": 3, "min_train_nodes": 3}
    for rounds in (2, 3):
        strategy = fedfor.flower.Strategy("fedfor", new_model(), folder=tmp_path / "r", **nodes)
        with follow(WITNESS, tmp_path / "r"):
            strategy.start(InProcessGrid(client_app(3), 3), num_rounds=rounds)
    assert numbers_of(tmp_path / "r") == [1, 2, 3]
    told = [about["numbers"]["accuracy"] for about in witnessed(tmp_path / "r", "round")]
    assert told == [record["accuracy"] for record in strategy.records]
    assert witnessed(tmp_path / "r", "round")[-1]["numbers"]["total/wire_up"] > 0
    assert witnessed(tmp_path / "r", "start")[0]["algorithm"] == "fedfor"


def test_the_tracker_in_the_docs_works(fedfor: Cli) -> None:
    page = (Path(__file__).parent.parent.parent / "docs/tracking.md").read_text()
    source = page.split('```python title="mine.py"\n')[1].split("```")[0]
    Path("of_the_docs.py").write_text(source)
    words = ["run", "prior-shift", *SMALL, "-o", "r", "--track", "of_the_docs:Log"]
    code, _, err = fedfor(*words)
    assert (code, err) == (0, "")
    records = map(json.loads, Path("r/rounds.jsonl").read_text().splitlines())
    told = [f"{r['round']} {r['accuracy']}" for r in records]
    assert Path("r/log.txt").read_text().splitlines() == told
    (kept,) = Path("r/tracking").glob("of_the_docs_Log-*.json")
    assert json.loads(kept.read_text())["kept"] == {"id": "fedfor, seed 0"}
