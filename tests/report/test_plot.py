"""Figures show the numbers of the records."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedfor.report.loading import load_runs
from fedfor.report.methods import methods_of
from fedfor.report.palette import line_style
from fedfor.report.plots.agreement import draw_agreement
from fedfor.report.plots.asked import Asked, of_names, of_points, places_of
from fedfor.report.plots.cohort import draw_cohort
from fedfor.report.plots.curves import draw_learning_curves
from fedfor.report.plots.parts import draw_parts
from fedfor.report.plots.target import draw_rounds_to_target
from fedfor.report.plots.traffic import WAYS, draw_bytes, draw_state

from .made import flower_extra, made_cohort, made_comparison, made_run, rising

RESULTS = Path(__file__).parents[2] / "results" / "prior-shift.json"


def asked(*paths: Path, methods: Sequence[str] = (), **more: Any) -> Asked:
    found = methods_of(load_runs(paths))
    return replace(Asked(of_names(found, methods), places_of(found)), **more)


def line(axes: Axes, label: str) -> Line2D:
    (found,) = [one for one in axes.get_lines() if one.get_label() == label]
    return found


Points = list[tuple[float, float]]


def points(axes: Axes, label: str) -> Points:
    found = line(axes, label)
    return rounded(list(zip(found.get_xdata(), found.get_ydata(), strict=True)))


def rounded(of: Points) -> Points:
    return [(round(float(x), 9), round(float(y), 9)) for x, y in of]


def legend(figure: Figure) -> list[str]:
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, three seeds, five rounds."""
    return made_comparison(tmp_path_factory.mktemp("c") / "made", seeds=3, target=0.6)


@pytest.mark.parametrize(
    ("metric", "scale"), [("accuracy", 100), ("loss", 1), ("train_loss", 1), ("disagreement", 1)]
)
def test_curves_are_means_of_the_records_with_bands(
    comparison: Path, metric: str, scale: float
) -> None:
    axes = draw_learning_curves(asked(comparison, metric=metric)).axes[0]
    for place, label in enumerate(("fedavg", "fedfor")):
        runs = [records(comparison / "runs" / label / f"seed-{seed}") for seed in range(3)]
        values = [[scale * run[t][metric] for run in runs] for t in range(5)]
        means = [statistics.fmean(of) for of in values]
        assert points(axes, label) == rounded(list(enumerate(means, 1)))
        corners = axes.collections[place].get_paths()[0].vertices.tolist()  # type: ignore[union-attr]
        for t, (mean, of) in enumerate(zip(means, values, strict=True), 1):
            at = [y for x, y in corners if x == t]
            deviation = statistics.stdev(of)
            assert (min(at), max(at)) == pytest.approx((mean - deviation, mean + deviation))


def test_by_bytes_the_places_are_what_was_sent_until_then(comparison: Path) -> None:
    figure = draw_learning_curves(asked(comparison, x="bytes"))
    sent = [20, 50, 80, 110, 140]  # thousands; from round 2 on, twice the model goes down
    assert [x for x, _ in points(figure.axes[0], "fedfor")] == pytest.approx(
        [1000 * thousands / 1024 for thousands in sent]
    )
    assert figure.axes[0].get_xlabel() == "KiB down and up"
    by_round = draw_learning_curves(asked(comparison)).axes[0]
    for label in ("fedavg", "fedfor"):
        assert [y for _, y in points(figure.axes[0], label)] == [
            y for _, y in points(by_round, label)
        ]
    up = draw_learning_curves(asked(comparison, x="up")).axes[0]
    assert points(up, "fedavg")[-1][0] == pytest.approx(50_000 / 1024)


def test_the_best_so_far_never_falls(tmp_path: Path) -> None:
    swings = (0.3, 0.1, 0.4, 0.2)
    made_run(tmp_path / "a", rounds=4, accuracy=lambda t: swings[t - 1])
    axes = draw_learning_curves(asked(tmp_path, best=True)).axes[0]
    assert [y for _, y in points(axes, "fedavg")] == pytest.approx([30, 30, 40, 40])


def test_only_rounds_that_were_tested_have_a_point(tmp_path: Path) -> None:
    made_run(tmp_path / "a", rounds=6, accuracy=lambda t: 0.5 if t % 3 == 0 else None)
    axes = draw_learning_curves(asked(tmp_path)).axes[0]
    assert points(axes, "fedavg") == [(3, 50), (6, 50)]


def test_one_round_alone_can_be_seen(tmp_path: Path) -> None:
    made_run(tmp_path / "a", rounds=1)
    axes = draw_learning_curves(asked(tmp_path)).axes[0]
    assert line(axes, "fedavg").get_marker() == "o"


def test_seeds_that_diverged_or_go_on_are_told_and_count_as_far_as_they_got(tmp_path: Path) -> None:
    made_run(tmp_path / "a", seed=0, rounds=4, accuracy=lambda t: 0.2)
    made_run(tmp_path / "b", seed=1, rounds=2, planned=4, accuracy=lambda t: 0.4, diverged=True)
    made_run(tmp_path / "c", algorithm="fedfor", rounds=3, planned=4, done=False)
    figure = draw_learning_curves(asked(tmp_path))
    assert [y for _, y in points(figure.axes[0], "fedavg")] == pytest.approx([30, 30, 20, 20])
    assert legend(figure) == ["fedavg [1 of 2 diverged]", "fedfor [1 of 1 not done]"]


def test_a_study_has_a_panel_a_point_and_crosses_of_the_paper() -> None:
    figure = draw_learning_curves(asked(RESULTS, best=True))
    assert [axes.get_title(loc="left") for axes in figure.axes[:5]] == [
        "E=1", "E=2", "E=4", "E=8", "E=16",
    ]  # fmt: skip
    of_file = json.loads(RESULTS.read_text())
    finals = [
        c["metrics"]["best"]
        for c in of_file["cells"]
        if (c["point"], c["row"]) == ("E=8", "FedFOR, published")
    ]
    eight = figure.axes[3]
    last = points(eight, "FedFOR, published")[-1]
    assert last == pytest.approx((100, 100 * statistics.fmean(finals)), abs=0.01)
    crosses = [
        (float(one.get_xdata()[0]), float(one.get_ydata()[0]))  # type: ignore[index]
        for one in eight.get_lines()
        if one.get_marker() == "x" and one.get_color() == line_style(4)["color"]
    ]
    assert crosses[-1] == (100, 70.93)
    assert "paper, best so far" in legend(figure)
    losses = draw_learning_curves(asked(RESULTS, methods=["FedAvgM"]))
    assert "paper, best so far" not in legend(losses)  # the paper does not have it


def test_points_and_methods_can_be_chosen_and_keep_their_looks() -> None:
    every = methods_of(load_runs([RESULTS]))
    chosen = of_names(of_points(every, ["e=8"]), ["fedfor, step,fedavg"])
    assert [(m.label, m.point) for m in chosen] == [("FedAvg", "E=8"), ("FedFOR, step", "E=8")]
    axes = draw_learning_curves(Asked(chosen, places_of(every))).axes[0]
    assert line(axes, "FedFOR, step").get_color() == line_style(5)["color"]


def test_a_method_is_named_by_its_algorithm_or_by_all_of_its_name(tmp_path: Path) -> None:
    labels = ["fedavg", "fedfor,alpha=2,lr=1", "fedfor,alpha=8,lr=1"]
    found = methods_of(load_runs([made_comparison(tmp_path / "c", labels, seeds=1)]))

    def named(*texts: str) -> list[str]:
        return [method.label for method in of_names(found, texts)]

    assert named("fedfor") == labels[1:]
    assert named("fedfor,alpha=8,lr=1,fedavg") == [labels[0], labels[2]]
    assert named("FedAvg", "fedfor,alpha=2,lr=1") == labels[:2]
    assert named() == labels


def test_a_federation_on_flower_is_drawn_as_well(tmp_path: Path) -> None:
    made_run(tmp_path / "f", algorithm="fedfor", flower=True, extra=flower_extra)
    axes = draw_learning_curves(asked(tmp_path / "f")).axes[0]
    assert points(axes, "fedfor") == rounded([(t, 100 * rising(t)) for t in range(1, 6)])
    assert draw_bytes(asked(tmp_path / "f")).axes[0].containers


def test_shifts_and_the_target_are_marked(tmp_path: Path) -> None:
    def shifts(t: int) -> dict[str, Any]:
        return {"shift": {}} if t == 3 else {}

    made_run(tmp_path / "a", extra=shifts, target=0.75)
    figure = draw_learning_curves(asked(tmp_path))
    straight = [(list(o.get_xdata()), list(o.get_ydata())) for o in figure.axes[0].get_lines()]
    assert ([3, 3], [0, 1]) in straight
    assert ([0, 1], [75, 75]) in straight
    assert legend(figure) == ["fedavg", "target, 75 %"]


# Rounds to a target


def marks(axes: Axes, label: str) -> list[tuple[float, str]]:
    return [
        (float(one.get_xdata()[0]), str(one.get_marker()))  # type: ignore[index]
        for one in axes.get_lines()
        if one.get_label() == label
    ]


def test_each_run_has_a_mark_and_who_never_got_there_is_at_the_edge(tmp_path: Path) -> None:
    for seed, last in enumerate((0.9, 0.9, 0.1)):
        made_run(tmp_path / f"a{seed}", seed=seed, rounds=10, accuracy=lambda t, a=last: t / 10 * a)
    for seed in range(2):
        made_run(
            tmp_path / f"b{seed}", algorithm="fedfor", seed=seed, rounds=10,
            accuracy=lambda t, s=seed: t / 10 + s / 10,
        )  # fmt: skip
    axes = draw_rounds_to_target(asked(tmp_path, target=0.45)).axes[0]
    *reached, never = marks(axes, "fedavg")
    assert reached == [(5, "o"), (5, "o")]
    assert never[1] == "x"
    assert never[0] > 10
    assert marks(axes, "fedfor") == [(5, "o"), (4, "o")]
    assert marks(axes, "mean") == [(4.5, "|")]  # of fedfor alone: fedavg's would flatter it
    assert [text.get_text() for text in axes.texts] == ["1 of 3 never"]


def test_how_runs_ended_that_never_got_there_is_told(tmp_path: Path) -> None:
    made_run(tmp_path / "a", rounds=2, planned=5, diverged=True)
    made_run(tmp_path / "b", algorithm="fedfor", rounds=2, planned=5, done=False)
    made_run(tmp_path / "c", algorithm="fedprox", seed=0)
    made_run(tmp_path / "d", algorithm="fedprox", seed=1, rounds=1, planned=5, diverged=True)
    axes = draw_rounds_to_target(asked(tmp_path, target=0.99)).axes[0]
    assert [text.get_text() for text in axes.texts] == [
        "diverged",
        "not yet",
        "1 of 2 never, 1 diverged",
    ]


def test_the_target_is_that_of_the_runs(comparison: Path) -> None:
    axes = draw_rounds_to_target(asked(comparison)).axes[0]
    assert "rounds to 60 %" in axes.get_xlabel()
    assert [text.get_text() for text in axes.texts] == ["never"]  # fedavg
    assert {x for x, _ in marks(axes, "fedfor")} == {2}


# Bytes and state


def test_bars_are_the_sums_of_the_summaries(comparison: Path) -> None:
    axes = draw_bytes(asked(comparison)).axes[0]
    summary = json.loads((comparison / "runs/fedfor/seed-0/summary.json").read_text())
    for way in WAYS:
        bars = [box[0] for box in axes.containers if box.get_label() == way]
        assert [bar.get_width() for bar in bars] == pytest.approx([summary[way] / 1024] * 2)
    assert axes.get_xlabel() == "KiB in all rounds"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["fedavg", "fedfor"]


def test_a_method_that_diverged_has_words_for_a_bar(tmp_path: Path) -> None:
    made_run(tmp_path / "a", seed=0)
    made_run(tmp_path / "b", seed=1, rounds=2, planned=5, diverged=True)
    made_run(tmp_path / "c", algorithm="fedfor")
    axes = draw_bytes(asked(tmp_path)).axes[0]
    assert len(axes.containers) == len(WAYS)
    assert [text.get_text() for text in axes.texts] == ["1 of 2 diverged"]


def test_state_is_that_of_the_records_and_none_is_told(tmp_path: Path) -> None:
    made_run(tmp_path / "a")
    made_run(tmp_path / "b", algorithm="scaffold", extra=lambda t: {"state_bytes": 2**20 * t})
    figure = draw_state(asked(tmp_path))
    assert points(figure.axes[0], "scaffold") == [(t, t) for t in range(1, 6)]
    assert points(figure.axes[0], "fedavg") == [(t, 0) for t in range(1, 6)]
    assert figure.axes[0].get_ylabel() == "state on clients, MiB"
    assert legend(figure) == ["fedavg (none)", "scaffold"]


# Domains, classes, clients


def test_domains_have_a_panel_each(tmp_path: Path) -> None:
    def extra(t: int) -> dict[str, Any]:
        return {"domains": {"svhn": t / 10, "usps": t / 20}, "classes": [0.1, 0.2]}

    made_run(tmp_path / "a", extra=extra)
    figure = draw_parts(asked(tmp_path))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["svhn", "usps"]
    assert points(figure.axes[1], "fedavg") == [(t, 5 * t) for t in range(1, 6)]


def test_classes_have_the_names_of_the_data_and_may_be_untested(tmp_path: Path) -> None:
    cohort = made_cohort([[1, 2, 3]], ["cat", "dog"])
    made_run(
        tmp_path / "a", cohort=cohort, rounds=2,
        extra=lambda t: {"classes": [t / 4, None, None if t == 1 else 0.5]},
    )  # fmt: skip
    figure = draw_parts(asked(tmp_path))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert titles == ["cat", "dog", "class 2"]
    assert points(figure.axes[0], "fedavg") == [(1, 25), (2, 50)]
    assert not figure.axes[1].get_lines()
    assert points(figure.axes[2], "fedavg") == [(2, 50)]
    assert len(draw_parts(asked(tmp_path, parts=("dog,cat",))).axes) == 2


def test_the_cohort_is_its_counts(tmp_path: Path) -> None:
    counts = [[0, 30], [12, 0], [7, 1]]
    made_run(tmp_path / "a", cohort=made_cohort(counts, ["cat", "dog"]))
    figure = draw_cohort(asked(tmp_path))
    (axes,) = figure.axes
    assert axes.images[0].get_array().tolist() == counts  # type: ignore[union-attr]
    assert [text.get_text() for text in axes.texts] == ["30", "12", "7", "1"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["cat", "dog"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "7", "14"]


def test_a_large_cohort_has_a_scale_instead_of_numbers(tmp_path: Path) -> None:
    cohort = {**made_cohort([[k] * 80 for k in range(60)]), "of": 500}
    made_run(tmp_path / "a", cohort=cohort)
    axes, scale = draw_cohort(asked(tmp_path)).axes
    assert not axes.texts
    assert scale.get_ylabel() == "samples"
    assert axes.get_ylabel() == "client, 60 of 500"
    assert 1 < len(axes.get_yticklabels()) < 60


def test_agreement_has_two_panels(tmp_path: Path) -> None:
    def extra(cosine: float) -> Callable[[int], dict[str, float]]:
        return lambda t: {"cosine": cosine} | ({"opposing": 0.25} if t > 1 else {})

    for seed in range(2):
        made_run(tmp_path / f"a{seed}", seed=seed, rounds=3, extra=extra(0.5 + seed / 10))
    cosine, opposing = draw_agreement(asked(tmp_path)).axes
    assert points(cosine, "fedavg") == [(t, 0.55) for t in (1, 2, 3)]
    assert points(opposing, "fedavg") == [(2, 25), (3, 25)]


def test_axes_can_be_logarithmic(tmp_path: Path) -> None:
    made_run(tmp_path / "a", rounds=100, extra=lambda t: {"loss": 10.0 ** (2 - t / 25)})
    figure = draw_learning_curves(asked(tmp_path, metric="loss", log_x=True, log_y=True))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "100" in [text.get_text() for text in axes.get_xticklabels()]
