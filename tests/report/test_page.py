"""What a report is made of: runs found wherever they lie, grouped, and told in words."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedfor.paper.study import load_study
from fedfor.report.loading import load_runs
from fedfor.report.methods import methods_of
from fedfor.report.page import page_html, write_page
from fedfor.report.page_data import page_data
from tests.conftest import Cli

from .made import flower_extra, made_comparison, made_run

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]


def payload(*paths: Path) -> dict[str, Any]:
    return page_data(load_runs(paths), "made")


def test_a_comparison_has_its_labels_in_the_order_asked_for(tmp_path: Path) -> None:
    made_comparison(tmp_path / "c", ["scaffold", "fedavg,server.lr=1.5"], seeds=3)
    made = payload(tmp_path / "c")
    assert made["methods"] == ["scaffold", "fedavg,server.lr=1.5"]
    assert [run["seed"] for run in made["runs"]] == [0, 1, 2, 0, 1, 2]


def test_runs_of_other_settings_are_not_seeds_of_one_method(tmp_path: Path) -> None:
    for place, alpha in enumerate((2, 2, 8)):
        settings = {"algorithm": {"alpha": alpha}}
        made_run(tmp_path / f"run{place}", algorithm="fedfor", seed=place, settings=settings)
    methods = methods_of(load_runs([tmp_path]))
    assert [(m.label, len(m.runs)) for m in methods] == [
        ("fedfor, alpha=2", 2),
        ("fedfor, alpha=8", 1),
    ]


def test_how_a_run_was_run_makes_no_other_method(tmp_path: Path) -> None:
    made_run(tmp_path / "a", seed=0)
    made_run(tmp_path / "b", seed=1, settings={"device": "cuda", "engine": "vector", "threads": 4})
    assert len(methods_of(load_runs([tmp_path]))) == 1


def test_a_simulated_run_and_one_on_flower_stand_beside_each_other(tmp_path: Path) -> None:
    made_run(tmp_path / "a", algorithm="fedfor")
    made_run(tmp_path / "b", algorithm="fedfor", flower=True, extra=flower_extra)
    made = payload(tmp_path / "a", tmp_path / "b")
    assert made["methods"] == ["fedfor (simulated)", "fedfor (Flower)"]
    assert made["failures"] == {
        "count": 1,
        "shown": [
            {"run": "fedfor (Flower), seed 0", "round": 2, "node": "7", "why": "it sent NaN"}
        ],
    }


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a")
    assert len(load_runs([folder, tmp_path, folder / ".." / "a"])) == 1


def test_bytes_are_told_up_to_each_round_and_in_all(tmp_path: Path) -> None:
    made = payload(made_run(tmp_path / "a", rounds=3))
    assert made["runs"][0]["series"]["down_cross_device"] == [10_000, 30_000, 50_000]
    assert made["points"][0]["totals"]["0"] == {
        "down_cross_device": 50_000,
        "down_cross_silo": 30_000,
        "up": 30_000,
        "state_bytes": 0,
        "note": "",
    }
    assert made["runs"][0]["series"]["down_cross_silo"] == [10_000, 20_000, 30_000]


def test_results_of_a_study_stand_beside_the_papers_numbers() -> None:
    made = payload(ROOT / "results/prior-shift.json")
    assert [point["name"] for point in made["points"]] == ["E=1", "E=2", "E=4", "E=8", "E=16"]
    table = made["points"][0]["table"]
    row = next(r for r in table["rows"] if made["methods"][r["method"]] == "FedAvg")
    column = [c["metric"] for c in table["columns"]].index("best")
    assert row["cells"][column]["paper"] == "46.0 (0.8)"
    assert row["cells"][column]["apart"] == "+1.1"  # as `fedfor table --against paper` prints
    crosses = [p for p in made["points"][0]["paper"] if made["methods"][p["method"]] == "FedAvg"]
    assert [(p["round"], p["accuracy"]) for p in crosses] == [(100, 39.85), (200, 45.97)]


def test_a_run_of_the_papers_settings_gets_its_numbers_wherever_it_lies(tmp_path: Path) -> None:
    study = load_study("prior-shift")
    cell = next(c for c in study.cells(Path()) if c.label == "FedAvg" and c.point == "E=2")
    config = cell.config.model_dump(mode="json", exclude_none=True)
    mine = {**config, "seed": 7, "device": "cuda", "precision": "bf16"}
    theirs = {**mine, "training": {**config["training"], "lr": 0.5}}
    for name, tables in (("mine", mine), ("theirs", theirs)):
        folder = made_run(tmp_path / name, rounds=3)
        (folder / "config.toml").write_text(tomli_w.dumps(tables))
    ours, others = load_runs([tmp_path / "mine", tmp_path / "theirs"])
    reported = ours.reported("best")
    assert reported is not None
    assert round(reported.mean, 1) == 54.0
    assert others.reported("best") is None


def test_nobody_wins_where_all_are_alike(tmp_path: Path) -> None:
    made_comparison(tmp_path / "c", ["a", "b"], seeds=1)
    table = payload(tmp_path / "c")["points"][0]["table"]
    won = {
        column["metric"]: [bool(row["cells"][place].get("winner")) for row in table["rows"]]
        for place, column in enumerate(table["columns"])
    }
    assert won["best"] == [False, True]
    assert won["up"] == [False, False]


def test_a_run_that_goes_on_is_shown_so_far_and_cannot_win(tmp_path: Path) -> None:
    made_run(tmp_path / "a", algorithm="done", accuracy=lambda t: 0.1)
    made_run(tmp_path / "b", algorithm="going", done=False, planned=9, accuracy=lambda t: 0.9)
    rows = payload(tmp_path)["points"][0]["table"]["rows"]
    assert [row["note"] for row in rows] == ["", "1 of 1 not done; so far"]
    assert not any(cell.get("winner") for cell in rows[1]["cells"])
    assert "90.0" in [cell["text"] for cell in rows[1]["cells"]]


def test_settings_that_differ_are_told_apart_from_common_ones(tmp_path: Path) -> None:
    made_run(tmp_path / "a", algorithm="fedavg", settings={"training": {"lr": 0.1}})
    made_run(tmp_path / "b", algorithm="fedprox", settings={"algorithm": {"mu": 0.5}})
    settings = payload(tmp_path)["settings"]
    assert settings["rows"] == [
        ["algorithm.name", ["fedavg", "fedprox"]],
        ["training.lr", ["0.1", "0.4"]],
        ["algorithm.mu", ["", "0.5"]],
    ]
    assert settings["common"]["training.epochs"] == "5"
    assert "seed" not in settings["common"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", "is empty; name a folder"),
        ("foreign", "holds no run: no rounds.jsonl is in it"),
        ("begun", "has a finished round yet"),
        ("absent", "there is no file or folder"),
        ("foreign/notes.txt", "holds no results"),
    ],
)
def test_what_holds_no_run_gets_a_sentence(
    name: str, words: str, tmp_path: Path, fedfor: Cli
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/notes.txt").write_text("nothing")
    made_run(tmp_path / "begun", rounds=0, planned=5, done=False)
    code, _, err = fedfor("report", tmp_path / name)
    assert code == 2
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_half_written_files_are_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", rounds=4)
    (folder / "summary.json").write_text('{"algorithm": "fed')
    (folder / "environment.json").write_text("[")
    with (folder / "rounds.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    made = payload(folder)
    assert made["runs"][0]["rounds"] == 4
    assert made["runs"][0]["state"] == "unfinished"
    told = " ".join(made["runs"][0]["problems"])
    for words in ("summary.json cannot", "environment.json cannot", "1 of its lines"):
        assert words in told


def test_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    odd = {"train_loss": "much", "cosine": None, "classes": "all", "domains": [1, "x", None]}
    folder = made_run(tmp_path / "run", rounds=2, extra=lambda t: odd)
    made = payload(folder)
    assert "train_loss" not in made["runs"][0]["series"]
    assert made["missing"]["agreement"] == ["No run tells how its clients' updates agree."]
    json.dumps(made, allow_nan=False)


def test_of_very_many_rounds_not_all_are_drawn_and_it_says_so(tmp_path: Path) -> None:
    tested = lambda t: t / 10_000 if t % 3 == 0 else None  # noqa: E731
    made = payload(made_run(tmp_path / "long", rounds=9_000, accuracy=tested))
    run = made["runs"][0]
    assert run["rounds"][:2] == [6, 12]
    assert run["rounds"][-1] == 9_000
    assert run["series"]["accuracy"][:2] == [0.06, 0.12]
    assert run["series"]["up"][1] == 12 * 10_000
    assert run["bests"]["at"][:2] == [3, 6]  # for targets, all count
    assert "not all are drawn" in made["missing"]["curves"][0]
    column = [c["metric"] for c in made["points"][0]["table"]["columns"]].index("best")
    assert made["points"][0]["table"]["rows"][0]["cells"][column]["text"] == "90.0"


def test_the_report_command_says_where_it_is(tmp_path: Path, fedfor: Cli) -> None:
    made_comparison(tmp_path / "c")
    code, out, err = fedfor("report", "c", "-o", "pages/mine.html", "--title", "Mine & yours")
    assert (code, err) == (0, "")
    page = tmp_path / "pages/mine.html"
    assert f"browser: {page.as_uri()}" in out
    assert "4 runs" in out
    assert "<title>Mine &amp; yours</title>" in page.read_text()


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path, fedfor: Cli) -> None:
    made_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    code, _, err = fedfor("report", "run", "-o", "file/report.html")
    assert code == 2
    assert err.startswith("error: the report cannot be written to file/report.html")


def test_the_page_loads_nothing_and_no_data_can_end_its_script(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", algorithm="</script><script>alert(1)</script>")
    page = page_html(payload(folder))
    assert page.count("</script>") == 2  # the data's own, and the code's
    assert not re.search(r"(src|href)\s*=", page.split("<script>")[0])
    policy = page.replace("&#x27;", "'")
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy


def test_a_sweep_of_60_runs_of_200_rounds_is_a_small_page(tmp_path: Path) -> None:
    def extra(t: int) -> dict[str, object]:
        full = {"classes": [t / 1001.7 + c / 100.3 for c in range(10)]}
        return {**full, "cosine": 1 / (t + 2.3), "opposing": 1 / (t + 1.1)}

    labels = [f"fedfor,alpha={alpha},training.lr=0.4" for alpha in range(20)]
    made_comparison(tmp_path / "sweep", labels, seeds=3, rounds=200, extra=extra)
    assert write_page([tmp_path / "sweep"], tmp_path / "sweep.html") == 60
    assert (tmp_path / "sweep.html").stat().st_size < 8 * 2**20
