"""What TensorBoard, Weights & Biases and MLflow show of a run, read back from what they wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from fedfor.tracking import follow

from ..conftest import Cli
from ..test_cli import SMALL
from .made import ODD, append, finish, odd_record, record, write
from .wandb_file import offline_runs


def event_files(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return found


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(e.step, e.value) for e in event_files(folder).Scalars(tag)]


class Store:
    """An MLflow store, through MLflow's own client."""

    def __init__(self, path: Path) -> None:
        import mlflow

        self.client = mlflow.MlflowClient(f"sqlite:///{path}")
        (self.experiment,) = (e for e in self.client.search_experiments() if e.name != "Default")
        self.runs = self.client.search_runs([self.experiment.experiment_id])

    def history(self, run: Any, name: str) -> list[tuple[int, float]]:
        return [(m.step, m.value) for m in self.client.get_metric_history(run.info.run_id, name)]


# MLflow 3.17 uses a part of SQLAlchemy that is to go; trackers' own processes ignore warnings.
reads_mlflow = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy:DeprecationWarning"
)


@reads_mlflow
def test_a_run_is_in_all_of_them_with_the_numbers_of_its_records(fedfor: Cli) -> None:
    names = [word for name in ("tensorboard", "wandb", "mlflow") for word in ("--track", name)]
    code, out, err = fedfor("run", "prior-shift", *SMALL, "-o", "r", *names)
    assert (code, err) == (0, "")
    assert "Everything is in r" in out
    records = [json.loads(line) for line in Path("r/rounds.jsonl").read_text().splitlines()]
    summary = json.loads(Path("r/summary.json").read_text())
    (of_wandb,) = offline_runs(Path("r"))
    store = Store(Path("mlflow.db"))
    (of_mlflow,) = store.runs
    for key in (
        "accuracy",
        "loss",
        "train_loss",
        "disagreement",
        "up",
        "down_cross_silo",
        "seconds",
    ):
        values = [(r["round"], r[key]) for r in records]
        close = [(t, pytest.approx(value, rel=1e-6)) for t, value in values]  # in 32 bits
        assert scalars(Path("r"), key) == close
        assert [(t, logged[key]) for t, logged in of_wandb.history.items()] == values
        assert store.history(of_mlflow, key) == values
    total = sum(r["up"] for r in records)
    assert scalars(Path("r"), "total/up")[-1] == (2, total)
    assert scalars(Path("r"), "summary/best") == [(2, pytest.approx(summary["best"]))]
    assert of_wandb.summary["best"] == summary["best"]
    assert of_mlflow.data.metrics["summary/best"] == summary["best"]
    assert of_mlflow.data.metrics["total/up"] == total
    assert of_wandb.exit_code == 0
    assert of_mlflow.info.status == "FINISHED"
    assert (of_wandb.run.project, store.experiment.name) == ("fedfor", "fedfor")
    assert of_wandb.run.display_name == of_mlflow.info.run_name == "fedfor, seed 0"
    assert list(of_wandb.run.tags) == ["algorithm fedfor", "seed 0"]
    assert of_mlflow.data.tags["seed"] == "0"
    assert of_wandb.config["training"]["batch_size"] == 16
    assert of_mlflow.data.params["training.batch_size"] == "16"


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
@reads_mlflow
def test_a_resumed_run_goes_on_in_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, expected = tmp_path / "r", [(t, pytest.approx(t / 10)) for t in (1, 2, 3, 4)]
    write(folder, [record(1), record(2)])
    with follow(tracker, folder):
        pass
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # another working folder makes no other store
    append(folder, record(3), record(4))
    finish(folder)
    for _ in range(2):  # the second time there is nothing left to tell
        with follow(tracker, folder):
            pass
    if tracker == "tensorboard":
        assert scalars(folder, "accuracy") == expected
    elif tracker == "wandb":
        first, second = offline_runs(folder)
        assert first.run.run_id == second.run.run_id
        history = {**first.history, **second.history}
        assert [(t, logged["accuracy"]) for t, logged in history.items()] == expected
        assert (first.exit_code, second.exit_code) == (1, 0)
    else:
        store = Store(tmp_path / "mlflow.db")
        (run,) = store.runs
        assert store.history(run, "accuracy") == expected
        assert run.info.status == "FINISHED"


def test_tensorboard_forgets_rounds_that_it_has_and_that_are_told_again(tmp_path: Path) -> None:
    """A process that was killed between writing and noting has written more than it knows."""
    write(tmp_path, [record(t) for t in (1, 2, 3)])
    with follow("tensorboard", tmp_path):
        pass
    noted = tmp_path / "tracking/tensorboard.json"
    noted.write_text(noted.read_text().replace('"round": 3', '"round": 1'))
    with follow("tensorboard", tmp_path):
        pass
    assert [step for step, _ in scalars(tmp_path, "accuracy")] == [1, 2, 3]


@reads_mlflow
def test_an_interrupted_and_a_diverged_run_are_told_apart_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mine.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    for name in ("cut", "diverged", "done"):
        write(tmp_path / name, [record(1)])
    finish(tmp_path / "diverged", diverged="fedfor diverged in round 2")
    finish(tmp_path / "done")
    folders = [tmp_path / name for name in ("cut", "diverged", "done")]
    with follow(["mlflow", "wandb"], *folders):
        pass
    assert not (tmp_path / "mlflow.db").exists()
    store = Store(tmp_path / "mine.db")
    assert store.experiment.name == "other"
    assert {run.info.run_name: run.info.status for run in store.runs} == {
        "cut": "KILLED", "diverged": "FAILED", "done": "FINISHED",
    }  # fmt: skip
    (why,) = (r.data.tags.get("summary.diverged") for r in store.runs if r.info.status == "FAILED")
    assert why == "fedfor diverged in round 2"
    assert [offline_runs(folder)[0].exit_code for folder in folders] == [1, 1, 0]


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
@reads_mlflow
def test_odd_names_break_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "r"
    odd = {name: value for value, name in enumerate(ODD) if "\ud800" not in name}  # TOML has none
    write(folder, [odd_record(1)], odd=odd, algorithm={"name": ODD[0] * 30})
    finish(folder, domains=odd, **{ODD[0]: "words" * 3000})
    with follow(tracker, folder):
        pass
    assert json.loads((folder / f"tracking/{tracker}.json").read_text())["ended"]
    if tracker == "tensorboard":
        events = event_files(folder)
        logged = {tag: events.Scalars(tag)[0].value for tag in events.Tags()["scalars"]}
    elif tracker == "wandb":
        (run,) = offline_runs(folder)
        logged = run.history[1]
    else:
        (stored,) = Store(tmp_path / "mlflow.db").runs
        logged = stored.data.metrics
    values = sorted(v for name, v in logged.items() if name.startswith("domains"))
    assert values == [pytest.approx(place + 0.1) for place in range(len(ODD))]
    assert logged["classes/0"] == 0.5
    assert logged["rejected"] == 2


def test_tensorboard_shows_the_settings_as_hyper_parameters(tmp_path: Path) -> None:
    write(tmp_path, [record(1)])
    with follow("tensorboard", tmp_path):
        pass
    content = event_files(tmp_path).SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    told = HParamsPluginData.FromString(content).session_start_info.hparams
    assert told["training.lr"].number_value == 0.1
    assert told["training.clip"].bool_value is True
    assert told["algorithm.name"].string_value == "fedfor"


def test_wandb_is_offline_unless_told_and_takes_the_project_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "r", [record(1)])
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with follow("wandb", tmp_path / "r"):
        pass
    (run,) = offline_runs(tmp_path / "r")
    assert run.run.project == "mine"
    write(tmp_path / "s", [record(1)])
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with follow("wandb", tmp_path / "s"):
        pass
    assert offline_runs(tmp_path / "s") == []


def test_wandb_online_without_a_key_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [record(1)])
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="wandb failed and is left out"):  # noqa: SIM117
        with follow("wandb", tmp_path):
            pass
