"""The settings that a study takes are the winners of the grid that was run for it."""

import statistics
from pathlib import Path

import pytest
from tools.fit_readings import offsets, rms

from fedfor.algorithms import FedFOR
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import load_study
from fedfor.report.strengths import alphas

RESULTS = Path(__file__).parent.parent.parent / "results"


def winners(results: Results) -> dict[str, str]:
    """For each method, what comes before the comma of a row's name: the algorithm that is best in
    the mean over points."""
    best: dict[str, tuple[float, str]] = {}
    for row in results.study.rows:
        means = [results.spread(point, row.name, "best").mean for point in results.points]
        mean = statistics.fmean(-1.0 if m is None else m for m in means)  # diverged: no winner
        method = row.name.partition(",")[0]
        best[method] = max(best.get(method, (-1.0, "")), (mean, row.algorithm))
    return {method: algorithm for method, (_, algorithm) in best.items()}


@pytest.mark.parametrize(
    ("study", "grid", "methods"),
    [
        ("prior-shift", "prior-shift-tuning", {"FedProx", "FedCurv", "FedAvgM"}),
        ("prior-shift-mnist-m", "prior-shift-tuning", {"FedAvgM"}),
        ("communication", "prior-shift-tuning", {"FedProx", "FedCurv"}),
        ("statefulness", "statefulness-tuning", {"FedAvgM", "FedDyn", "SCAFFOLD"}),
        ("communication", "statefulness-tuning", {"FedDyn", "FedPD", "SCAFFOLD"}),
    ],
)
def test_settings_are_those_that_won(study: str, grid: str, methods: set[str]) -> None:
    won = winners(load_results([RESULTS / f"{grid}.json"]))
    taken = {row.name: row.algorithm for row in load_study(study).rows if row.name in methods}
    assert taken == {method: won[method] for method in methods}


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
