"""Who took part, on a page: as the records say, and nothing where everyone is always there."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedfor.report.loading import load_runs
from fedfor.report.page import write_page
from fedfor.report.page_data import page_data
from tests.browser import browser, opened_tab

from .made import made_comparison, made_run

pytestmark = pytest.mark.processes

__all__ = ["browser"]  # a fixture


def patchy(t: int) -> dict[str, Any]:
    """Twelve are called; every third round is abandoned."""
    told = {"called": 12, "away": 2 * t, "dropped": 3, "late": 1, "surplus": 1, "waited": 0.5 * t}
    if t % 3:
        return {"clients": 7, **told}
    return {"clients": 0, **told, "surplus": 0, "abandoned": True, "up": 0, "train_loss": None}


SIX = {
    "called": 72.0,
    "counted": 28.0,
    "away": 42.0,
    "dropped": 18.0,
    "late": 6.0,
    "surplus": 4.0,
    "abandoned": 2.0,
    "waited": 1.75,
}
"""Of six rounds."""


def point(*paths: Path) -> dict[str, Any]:
    found: dict[str, Any] = page_data(load_runs(paths), "made")["points"][0]
    return found


def test_nothing_is_told_where_everyone_is_always_there(tmp_path: Path) -> None:
    assert point(made_run(tmp_path / "a"))["participation"] is None


def test_a_comparison_tells_the_means_over_seeds(tmp_path: Path) -> None:
    folder = made_comparison(tmp_path / "c", seeds=2, rounds=6, extra=patchy)
    longer = {"waited": 9.0, "dropped": 10}
    last = folder / "runs" / "fedfor" / "seed-1" / "summary.json"
    summary = json.loads(last.read_text())
    summary["participation"] |= longer
    last.write_text(json.dumps(summary))
    six = {**SIX, "rounds": 6, "note": ""}
    assert point(folder)["participation"] == {
        "0": six,
        "1": {**six, "waited": (1.75 + 9) / 2, "dropped": 14},
    }


def test_only_methods_that_know_of_it_are_told(tmp_path: Path) -> None:
    made_run(tmp_path / "a", algorithm="fedavg")
    made_run(tmp_path / "b", algorithm="fedfor", rounds=6, extra=patchy)
    assert list(point(tmp_path / "a", tmp_path / "b")["participation"]) == ["1"]


def test_a_run_that_goes_on_tells_it_so_far(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", rounds=6, planned=9, extra=patchy, done=False)
    [told] = point(run)["participation"].values()
    assert told == {**SIX, "rounds": 6, "note": "1 of 1 not done; so far"}


def test_the_last_tenth_is_not_taken_for_clients_who_are_late(tmp_path: Path) -> None:
    table = point(made_run(tmp_path / "a", rounds=6, extra=patchy))["table"]
    place = [column["metric"] for column in table["columns"]].index("late")
    assert table["rows"][0]["cells"][place]["text"] == "85.7"  # 6/7, of round 6


@pytest.mark.parametrize("damaged", [{"called": "many"}, {}, [1], None])
def test_a_damaged_summary_is_told(tmp_path: Path, damaged: object) -> None:
    run = made_run(tmp_path / "a", rounds=6, extra=patchy)
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "participation": damaged}))
    [loaded] = load_runs([run])
    assert loaded.problems == ("its summary.json does not tell all of who took part",)
    assert set(point(run)["participation"]["0"].values()) == {None, 6, ""}


def test_the_page_shows_a_row_for_each_method(tmp_path: Path, browser: Any) -> None:
    folder = made_comparison(tmp_path / "c", ["fedavg", "fedfor"], rounds=6, extra=patchy)
    lost = tmp_path / "d"
    made_run(lost, algorithm="scaffold", rounds=4, extra=patchy, diverged=True)
    write_page([folder, lost], tmp_path / "report.html")
    with opened_tab(browser) as tab:
        tab.open((tmp_path / "report.html").as_uri())
        rows = tab.page.locator("#participation tbody tr")
        cells = [row.locator("td").all_inner_texts() for row in rows.all()]
        figures = ["72", "28 (38.9 %)", "18 (25 %)", "6 (8.3 %)", "4 (5.6 %)", "42", "2 of 6"]
        assert cells[:2] == [["fedavg", *figures, "1.75"], ["fedfor", *figures, "1.75"]]
        assert cells[2][1:] == ["-"] * 8
        assert "1 of 1 diverged" in cells[2][0]
        tab.page.locator('button[data-method="0"]').click()
        assert rows.count() == 2
        assert tab.errors == []
