"""The settings that a study takes are the winners of the grid that was run for it."""

from pathlib import Path

import pytest
from tools.fit_readings import offsets, rms
from tools.take_winners import kind, main, take, winners

from fedfor.algorithms import FedFOR
from fedfor.errors import ConfigError
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import load_study
from fedfor.report.strengths import alphas

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent.parent
RESULTS, STUDIES = ROOT / "results", ROOT / "src" / "fedfor" / "paper" / "studies"


@pytest.mark.parametrize(
    ("study", "grid", "rows"),
    [
        ("prior-shift", "prior-shift-tuning", {"FedProx", "FedCurv", "FedAvgM"}),
        ("prior-shift-mnist-m", "prior-shift-tuning", {"FedAvgM"}),
        ("communication", "prior-shift-tuning", {"FedProx", "FedCurv"}),
        ("communication", "statefulness-tuning", {"FedDyn", "FedPD", "SCAFFOLD"}),
        ("statefulness", "statefulness-tuning", {"FedAvgM", "FedDyn", "SCAFFOLD", "FedFOR, step"}),
    ],
)
def test_settings_are_those_that_won(study: str, grid: str, rows: set[str]) -> None:
    won = winners(load_results([RESULTS / f"{grid}.json"]))
    taken = {row.name: row.algorithm for row in load_study(study).rows if row.name in rows}
    assert taken == {name: won[kind(algorithm)] for name, algorithm in taken.items()}
    assert taken.keys() == rows


def test_winners_take_the_places_of_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    won = {kind("fedprox,mu=1"): "fedprox,mu=7", kind("fedfor,strength=loss,alpha=1"): "no row"}
    text = (STUDIES / "prior-shift.toml").read_text()
    assert take(text, won, "prior-shift") == text.replace("fedprox,mu=0.01", "fedprox,mu=7")
    assert capsys.readouterr().out == "prior-shift: FedProx: fedprox,mu=7 (new)\n"


def grid(**accuracies: list[float | None]) -> Results:
    """A grid of FedProx at E=1 and E=2, by mu; None: it diverged."""
    rows = [{"name": f"mu {mu[1:]}", "algorithm": f"fedprox,mu={mu[1:]}"} for mu in accuracies]
    points = [{"name": f"E={e}", "epochs": e, "rounds": 1} for e in (1, 2)]
    cells = [
        {"point": f"E={e}", "row": row["name"], "algorithm": row["algorithm"], "seed": 0,
         "epochs": e, "rounds": 1, "half": 1, "accuracy": (), "made": 0, "diverged": best is None,
         "metrics": {} if best is None else {"best": best}}
        for row, of_row in zip(rows, accuracies.values(), strict=True)
        for e, best in zip((1, 2), of_row, strict=False)
    ]  # fmt: skip
    study = {"name": "grid", "title": "", "points": points, "rows": rows, "seeds": [0]}
    return Results.model_validate({"study": study | {"config": {}}, "made": [{}], "cells": cells})


def test_the_best_in_the_mean_wins_unless_it_diverged() -> None:
    found = winners(grid(_1=[0.9, None], _2=[0.2, 0.4], _3=[0.1, 0.6]))
    assert found == {kind("fedprox,mu=1"): "fedprox,mu=3"}


def test_a_grid_that_is_not_done_has_no_winner() -> None:
    with pytest.raises(ConfigError, match="'mu 2' or one of its kind lacks seeds"):
        winners(grid(_1=[0.9, 0.1], _2=[0.2]))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a file of results"),
        (["none.json", "digits"], "there are no results in none.json"),
        (["statefulness-tuning.json", "nowhere"], "there is no study 'nowhere'"),
        (["statefulness-tuning.json", "digits"], "digits has no row of a kind"),
        (["statefulness-tuning.json", "statefulness-tuning"], "is a grid itself"),
    ],
)
def test_mistakes_are_told(words: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit, match=sentence):
        main(
            [str(RESULTS / words[0]) if words[0][0] == "s" else words[0], *words[1:]]
            if words
            else []
        )


def test_a_kind_is_all_but_the_numbers() -> None:
    assert kind("fedfor,alpha=4,strength=step") == kind("fedfor,strength=step,alpha=0.5")
    others = (
        "fedfor,alpha=4",
        "fedfor,alpha=4,strength=loss",
        "fedfor+fedbn,alpha=4,strength=step",
    )
    assert kind("fedfor,alpha=4,strength=step") not in [kind(other) for other in others]


def test_the_default_strength_is_the_best_of_the_sweep_at_every_e() -> None:
    swept = load_results([RESULTS / "alpha-sweep.json"])
    in_units = alphas(swept)
    assert len(swept.points) == 5
    for point in swept.points:
        means = {row: swept.spread(point, row, "best").mean or 0.0 for row in swept.rows}
        best = max(means, key=lambda row: means[row])
        assert in_units[point, best]["step"] == pytest.approx(FedFOR().alpha)
    settings = {row.name: row.algorithm for row in load_study("prior-shift").rows}
    assert settings["FedFOR, step"] == "fedfor,strength=step,alpha=4"


def test_prior_shift_is_the_reading_that_fits_the_papers_rows_best() -> None:
    off = offsets(load_results([RESULTS / "prior-shift-readings.json"]))
    readings = {row.partition(", ")[2] for row in off}
    best = min(readings, key=lambda r: rms(off[f"FedAvg, {r}"]) + rms(off[f"FedFOR, {r}"]))
    assert best == "5 clients, augmented"
    config = load_study("prior-shift").cells(Path())[0].config
    assert config.population.cohort == 5
    assert config.training.augment == ["flip", "crop=4"]
