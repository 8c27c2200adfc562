"""What a page must not say: means of what is not alike, and numbers that flatter."""

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedfor.paper.study import load_study
from fedfor.report.loading import load_runs
from fedfor.report.methods import methods_of
from fedfor.report.page import write_page
from fedfor.report.page_data import page_data
from tests.conftest import Cli

from .made import flower_extra, made_comparison, made_run

pytestmark = pytest.mark.fast

RESULTS = Path(__file__).parents[2] / "results"


def payload(*paths: Path) -> dict[str, Any]:
    return page_data(load_runs(paths), "made")


def cell(made: dict[str, Any], metric: str, row: int = 0) -> dict[str, Any]:
    table = made["points"][0]["table"]
    place = [c["metric"] for c in table["columns"]].index(metric)
    found: dict[str, Any] = table["rows"][row]["cells"][place]
    return found


def test_results_of_two_studies_are_not_averaged() -> None:
    runs = load_runs([RESULTS / "prior-shift.json", RESULTS / "prior-shift-mnist-m.json"])
    methods = [m for m in methods_of(runs) if m.point == "E=1" and m.label.startswith("FedAvg")]
    assert {len(m.runs) for m in methods} == {3}
    assert len({m.label for m in methods}) == len(methods)


def test_no_two_methods_have_one_name(tmp_path: Path) -> None:
    for name, more in (("x", {}), ("y", {"lr": 0.5, "epochs": 1, "batch_size": 3, "x": 1})):
        for seed in (0, 1):
            made_run(tmp_path / name / f"seed-{seed}", seed=seed, settings={"training": more})
    made_run(tmp_path / "f", flower=True, extra=flower_extra)
    methods = methods_of(load_runs([tmp_path]))
    assert [(m.label, len(m.runs)) for m in methods] == [
        ("fedavg (Flower)", 1),
        ("fedavg (simulated) (x/seed-0)", 2),
        ("fedavg (simulated) (y/seed-0)", 2),
    ]


def test_the_same_seed_twice_is_no_second_seed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made_run(tmp_path / name)
    made = payload(tmp_path)
    assert made["methods"] == ["fedavg (a)", "fedavg (b)"]
    assert cell(made, "best")["text"] == "83.3"  # without a deviation of 0


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"precision": "bf16"}, "precision=bf16"),
        ({"evaluation": {"every": 2}}, "every=2"),
        ({"evaluation": {"target": 0.3}}, "target=0.3"),
    ],
)
def test_other_precision_or_evaluation_is_told_apart(
    settings: dict[str, Any], name: str, tmp_path: Path
) -> None:
    made_run(tmp_path / "a", seed=0)
    made_run(tmp_path / "b", seed=1, settings=settings)
    made = payload(tmp_path)
    assert len(made["methods"]) == 2
    assert name in made["methods"][1]
    assert len(made["settings"]["rows"]) == 1


def test_the_papers_numbers_stand_only_beside_the_same_question(tmp_path: Path) -> None:
    study = load_study("prior-shift")
    one = next(c for c in study.cells(Path()) if c.label == "FedAvg" and c.point == "E=2")
    config = one.config.model_dump(mode="json", exclude_none=True)
    folder = made_run(tmp_path / "run", rounds=3)
    other = {**config, "evaluation": {**config.get("evaluation", {}), "half": 5, "target": 0.3}}
    (folder / "config.toml").write_text(tomli_w.dumps(other))
    (run,) = load_runs([folder])
    assert run.reported("best") is not None
    assert run.reported("best_half") is None
    assert run.reported("rounds_to_target") is None


def test_a_run_that_diverged_does_not_look_cheap(tmp_path: Path) -> None:
    made_comparison(tmp_path / "c", ["a"], seeds=1, rounds=8)
    made_run(tmp_path / "c/runs/b/seed-0", algorithm="b", rounds=2, planned=8, diverged=True)
    totals = payload(tmp_path / "c")["points"][0]["totals"]
    assert totals["0"]["up"] == 80_000
    assert totals["1"]["up"] is None
    assert totals["1"]["note"] == "1 of 1 diverged"


def test_a_target_is_reached_on_the_page_where_the_table_says_so(tmp_path: Path) -> None:
    made = payload(made_run(tmp_path / "r", target=0.55, accuracy=lambda t: 0.5 + 0.05 * (t > 2)))
    assert made["points"][0]["target"] == 55.0
    bests = made["runs"][0]["bests"]
    assert bests == {"at": [1, 3], "values": [50.0, 55.0]}
    assert cell(made, "rounds_to_target")["text"] == "3.0"


def test_settings_of_results_are_those_of_each_row() -> None:
    made = payload(RESULTS / "prior-shift-readings.json")
    told = dict(made["settings"]["rows"])
    assert len(set(told["population.cohort"])) > 1
    assert "population.cohort" not in made["settings"]["common"]


def test_runs_that_lack_something_are_counted(tmp_path: Path) -> None:
    made_run(tmp_path / "a", extra=lambda t: {"classes": [0.5]})
    made_run(tmp_path / "b", algorithm="fedfor", flower=True, extra=flower_extra)
    made = payload(tmp_path)
    assert made["missing"]["parts"] == [
        "1 of 2 runs do not tell accuracy by class (clients on Flower do not tell classes)."
    ]


def test_environments_and_shifts_are_told(tmp_path: Path) -> None:
    made_run(tmp_path / "a", extra=lambda t: {"shift": {"class": 1}} if t == 3 else {})
    made = payload(tmp_path)
    assert made["environments"] == [
        {"facts": {"fedfor": "0.1.0", "device": "cpu (made)"}, "runs": 1}
    ]
    assert made["points"][0]["shifts"] == [3]


def test_a_summary_that_tells_of_other_rounds_is_not_believed(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a")
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_bytes(b"".join(lines[:3]))
    (run,) = load_runs([folder])
    assert run.state == "unfinished"
    assert run.problems == ("its summary.json tells of 5 rounds, and rounds.jsonl of 3",)


HOSTILE: dict[str, dict[str, object]] = {
    "cohort.json": {"class_names": {"0": "x"}, "clients": [{"counts": [1, "x"]}]},
    "summary.json": {"rounds": 5, "best": "much", "up": float("nan"), "notes": 5, "domains": 3},
    "environment.json": {"torch": {"a": [1]}, "x": None},
}


@pytest.mark.parametrize("name", [*HOSTILE, "rounds.jsonl", "deep"])
def test_odd_files_cost_a_word_and_not_the_page(name: str, tmp_path: Path) -> None:
    folder = made_run(tmp_path / "odd", extra=lambda t: {"classes": [0.1, 0.2]})
    if name in HOSTILE:
        (folder / name).write_text(json.dumps(HOSTILE[name]))
    elif name == "deep":
        (folder / "cohort.json").write_text("[" * 100_000)
    else:
        (folder / "summary.json").unlink()
        odd = {"accuracy": "high", "up": 10**400, "classes": {"cat": 1}, "rejected": 7}
        lines = [{"round": t, "seconds": 1.0, **(odd if t > 1 else {})} for t in (1, 2)]
        (folder / "rounds.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
    made_run(tmp_path / "good", algorithm="fedfor")
    assert write_page([tmp_path], tmp_path / "page.html") == 2
    json.dumps(payload(tmp_path), allow_nan=False)


@pytest.mark.parametrize("name", ["results.json", "run/rounds.jsonl", "folder.html"])
def test_a_report_replaces_nothing_but_a_page(name: str, tmp_path: Path, fedfor: Cli) -> None:
    made_run(tmp_path / "run")
    (tmp_path / "results.json").write_text("mine")
    (tmp_path / "folder.html").mkdir()
    before = (tmp_path / "run/rounds.jsonl").read_bytes()
    code, _, err = fedfor("report", "run", "-o", name)
    assert code == 2
    assert err.startswith("error: ")
    assert (tmp_path / "results.json").read_text() == "mine"
    assert (tmp_path / "run/rounds.jsonl").read_bytes() == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
