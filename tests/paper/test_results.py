import json
from pathlib import Path

import pytest

from fedfor.errors import ConfigError, FolderError
from fedfor.paper.results import load_results

from .made import changed, results


def test_saved_and_loaded_again(tmp_path: Path) -> None:
    made = results()
    made.save(tmp_path / "results.json")
    loaded = load_results([tmp_path])
    assert loaded == made
    lines = (tmp_path / "results.json").read_text().splitlines()
    assert sum('"seed"' in line for line in lines) == len(made.cells)  # a cell a line
    json.loads("\n".join(lines))


def test_files_of_one_study_go_together_and_the_later_one_wins(tmp_path: Path) -> None:
    whole = results()
    early = changed(whole, notes=[], cells=[o for o in whole.cells if o.seed < 2])
    other = {**whole.made[0], "commit": "def"}
    late = changed(
        whole, made=[other], notes=["a note"], cells=[o for o in whole.cells if o.seed > 0]
    )
    early.save(tmp_path / "early.json")
    late.save(tmp_path / "late.json")
    both = load_results([tmp_path / "early.json", tmp_path / "late.json"])
    assert sorted(o.key for o in both.cells) == sorted(o.key for o in whole.cells)
    assert both.notes == ["a note"]
    commits = {o.seed: both.made[o.made]["commit"] for o in both.cells}
    assert commits == {0: "abc", 1: "def", 2: "def"}
    assert both.seconds == pytest.approx(2.0 * len(whole.cells))


def damaged(part: str, value: object) -> str:
    """Saved results with one thing in them changed by hand."""
    raw = json.loads(results().model_dump_json())
    *path, last = part.split(".")
    place = raw
    for step in path:
        place = place[int(step)] if step.isdigit() else place[step]
    place[last] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"study": "x"}',
        '{"study": {}, "made": [], "cells": []}',
        damaged("cells", ["a"]),
        damaged("cells.0.metrics", None),
        damaged("cells.0.metrics.best", "good"),
        damaged("cells.0.metrics.best", float("nan")),
        damaged("cells.0.accuracy", ["x"]),
        damaged("cells.0.made", 99),
        damaged("cells.0.row", "nobody"),
        damaged("cells.0.seed", 1),  # so that it is there twice
        damaged("made", ["a"]),
        damaged("notes", "a note"),
        damaged("study.table", "nosuch"),
        damaged("study.rows.0.paper", "nobody"),
        damaged("study.config", 3),
    ],
)
def test_what_is_no_result(content: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(FolderError, match="holds no results of 'fedfor reproduce'") as told:
        load_results([tmp_path])
    assert "\n" not in str(told.value)


def test_rows_are_in_the_order_of_the_study_that_has_them_all() -> None:
    whole = results()
    backwards = whole.study.model_copy(update={"rows": whole.study.rows[::-1]})
    some = changed(whole, cells=[o for o in whole.cells if o.row == "FedFOR"])
    few = whole.study.model_copy(update={"rows": whole.study.rows[2:]})
    assert whole.merged(changed(some, study=backwards)).rows == ["FedFOR", "FedAvgM", "FedAvg"]
    assert whole.merged(changed(some, study=few)).rows == ["FedAvg", "FedAvgM", "FedFOR"]


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"no results in .*results\.json; make some with"):
        load_results([tmp_path])


def test_a_comparison_has_its_table_already(tmp_path: Path) -> None:
    (tmp_path / "compare.toml").write_text("")
    with pytest.raises(FolderError, match=r"is a comparison, and its table is .*table\.md"):
        load_results([tmp_path])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"config": {"evaluation": {"target": 0.6}}},
        {"points": [{"name": "E=1", "epochs": 1, "half": 100, "rounds": 300},
                    {"name": "E=8", "epochs": 8, "half": 50, "rounds": 100}]},
    ],
)  # fmt: skip
def test_of_different_studies(change: dict[str, object], tmp_path: Path) -> None:
    one = results()
    study = type(one.study).model_validate({**one.study.model_dump(), **change})
    one.save(tmp_path / "one.json")
    changed(one, study=study).save(tmp_path / "two.json")
    with pytest.raises(ConfigError, match="do not go together"):
        load_results([tmp_path / "one.json", tmp_path / "two.json"])
