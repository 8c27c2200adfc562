import csv
import io
import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from fedfor.errors import ConfigError
from fedfor.report.loading import from_results
from fedfor.report.methods import Method, methods_of, of_key
from fedfor.report.palette import line_style
from fedfor.report.paper_figure import PANELS, draw_figure
from fedfor.report.paper_table import paper_table
from fedfor.report.plots.curves import best_so_far
from fedfor.report.strengths import alphas

from .made import changed, results

pytestmark = pytest.mark.fast


def lines(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]


def test_means_deviations_winners_and_words() -> None:
    head, fedavg, fedavgm, fedfor = lines(paper_table(results(), metrics=["best"]))
    assert head == ["", "E=1, t=200", "E=8, t=100"]
    assert fedavg == ["FedAvg", "42.0 (2.0)", "60.0 (0.0)"]
    assert fedavgm == ["FedAvgM", "41.0 (0.0)", "1 of 3 diverged"]
    assert fedfor == ["FedFOR", "**47.0 (2.0)**", "**71.0 (1.0)**"]


def test_against_the_paper_in_units_of_the_joint_deviation() -> None:
    text = paper_table(results(), against="paper", metrics=["best"])
    rows = {row[0]: row[1:] for row in lines(text)}
    assert [row[0] for row in lines(text)].count("*paper*") == 2  # it has no FedAvgM
    # FedFOR, the last one: the paper has 48.06 (0.82) and 70.93 (0.94).
    assert rows["*paper*"] == ["48.1 (0.8)", "70.9 (0.9)"]
    first = (47.0 - 48.06) / math.sqrt(2.0**2 + 0.82**2)
    second = (71.0 - 70.93) / math.sqrt(1.0**2 + 0.94**2)
    assert (
        rows["*difference, deviations*"] == [f"{first:+.1f}", f"{second:+.1f}"] == ["-0.5", "+0.1"]
    )


def test_gains_over_a_row() -> None:
    text = paper_table(results(), against="paper", gain_over="FedAvg", metrics=["best"])
    rows = lines(text)
    assert [row[0] for row in rows[1:]] == [
        "FedAvgM",
        "FedFOR",
        "*paper*",
        "*difference, deviations*",
    ]
    # Ours 5 with each seed at E=1; 10, 11, 12 at E=8. The paper's 48.06 - 45.97 = 2.09, of whose
    # deviation only sqrt(.82^2 + .79^2) is known.
    assert rows[2][1:] == ["**5.0 (0.0)**", "**11.0 (1.0)**"]
    assert rows[3][1] == "2.1 (1.1)"
    apart = (5 - 2.09) / math.sqrt(0.82**2 + 0.79**2)
    assert rows[4][1] == f"{apart:+.1f}" == "+2.6"
    assert rows[1][2] == "1 of 3 diverged"
    behind = paper_table(results(), gain_over="FedFOR", metrics=["best"])
    assert "-5.0 (0.0)" in behind
    assert "**" not in behind  # the row that is left out is the best


def test_gains_are_of_seeds_that_both_rows_have() -> None:
    made = results()
    cells = [o for o in made.cells if o.row != "FedFOR" or o.point != "E=8" or o.seed == 2]
    rows = lines(paper_table(changed(made, cells=cells), gain_over="FedAvg", metrics=["best"]))
    assert rows[2][1:] == ["**5.0 (0.0)**", "**12.0 [1 of the seeds]**"]
    cells = [o for o in cells if o.row != "FedAvg" or o.point != "E=8" or o.seed < 2]
    rows = lines(paper_table(changed(made, cells=cells), gain_over="FedAvg", metrics=["best"]))
    assert rows[2][2] == "no seed in common"


def test_rounds_to_a_target_that_some_seeds_never_reach() -> None:
    text = paper_table(results(), metrics=["rounds_to_target", "state_bytes"])
    rows = {row[0]: row[1:] for row in lines(text)}
    assert rows[""] == ["E=1, to 50 %", "E=1, MiB kept", "E=8, to 50 %", "E=8, MiB kept"]
    assert rows["FedAvg"] == ["3 of 3 never", "**2.0 (1.0)**", "**11.0 (1.0)**", "**2.0 (1.0)**"]


def test_notes_stand_below_every_form() -> None:
    for form in ("markdown", "latex"):
        text = paper_table(results(), form=form)
        assert "svhn: 1,083 of 73,257 training images" in text
        assert "seeds 0, 1, 2" in text
        assert "a GPU" in text


def test_csv_has_all_of_it() -> None:
    text = paper_table(results(), against="paper", metrics=["best"], form="csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 6
    fedfor = next(r for r in rows if r["row"] == "FedFOR" and r["point"] == "E=1")
    assert (fedfor["mean"], fedfor["paper_mean"], fedfor["difference"]) == (
        "47.0000",
        "48.0600",
        "-1.0600",
    )
    assert fedfor["data"] == "svhn: 1,083 of 73,257 training images"
    diverged = next(r for r in rows if r["row"] == "FedAvgM" and r["point"] == "E=8")
    assert (diverged["mean"], diverged["words"]) == ("", "1 of 3 diverged")


def test_latex_is_escaped_and_whole() -> None:
    text = paper_table(results(), metrics=["rounds_to_target"], form="latex")
    assert r"E=1, to 50 \%" in text
    assert text.count(r"\\") == 4 + 2  # and the notes, which must be seen
    assert text.startswith(r"\begin{tabular}{lcc}")
    assert r"\end{tabular}" in text


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"--metrics beast: it must be one of best_half"):
        paper_table(results(), metrics=["beast"])
    with pytest.raises(ConfigError, match=r"--gain-over Fed: the rows are FedAvg"):
        paper_table(results(), gain_over="Fed")
    with pytest.raises(ConfigError, match=r"--metrics recovery: no run has it"):
        paper_table(results(), metrics=["best", "recovery"])
    without = changed(results(), study=results().study.model_copy(update={"table": None}))
    with pytest.raises(ConfigError, match="the paper has no numbers of made"):
        paper_table(without, against="paper")
    with pytest.raises(ConfigError, match="there is no run in these results yet"):
        paper_table(changed(results(), cells=[]))
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_figure(changed(results(), cells=[]), Path("none.png"))


def test_metrics_that_the_paper_has_not_are_left_open() -> None:
    made = results()
    cells = [o.model_copy(update={"metrics": {**o.metrics, "final": 0.3}}) for o in made.cells]
    for gain_over in (None, "fedavg"):  # whatever the case
        found = lines(
            paper_table(changed(made, cells=cells), "paper", gain_over, ["final", "best"])
        )
        paper = next(row for row in found if row[0] == "*paper*")
        assert paper[1] == "-"
        assert paper[2] != "-"


def test_the_mean_of_the_last_rounds_of_files_that_have_curves_alone() -> None:
    made = results()
    cells = []
    for o in made.cells:
        cell = o.model_dump(exclude={"metrics": {"late"}})
        curve = (10.0,) * 8 + (30.0, 50.0 + o.seed)
        cells.append(cell | {"accuracy": curve, "rounds": 20, "at": range(2, 21, 2)})
    found = lines(paper_table(changed(made, cells=cells), metrics=["late"]))
    assert found[0][1:] == ["E=1, t>18", "E=8, t>18"]
    assert next(row for row in found if row[0] == "FedFOR")[1] == "**51.0 (1.0)**"


def test_cells_with_fewer_seeds_say_so() -> None:
    made = results()
    fewer = changed(made, cells=[o for o in made.cells if o.row != "FedFOR" or o.seed < 2])
    rows = {row[0]: row[1:] for row in lines(paper_table(fewer, metrics=["best"]))}
    assert rows["FedFOR"][0] == "**46.0 (1.4) [2 of the seeds]**"
    assert rows["FedAvg"][0] == "42.0 (2.0)"


def test_a_seed_without_a_shift_has_no_recovery() -> None:
    made = results()
    cells = [
        o.model_copy(update={"metrics": {**o.metrics, **({"recovery": 3.0} if o.seed else {})}})
        for o in made.cells
    ]
    rows = {
        r[0]: r[1:] for r in lines(paper_table(changed(made, cells=cells), metrics=["recovery"]))
    }
    assert rows["FedAvg"][0] == "**3.0 (0.0) [2 of the seeds]**"


def test_what_was_changed_stands_below() -> None:
    made = results()
    study = made.study.model_copy(update={"changed": ("training.lr=0.5",)})
    assert "Not as the study is written: training.lr=0.5." in paper_table(
        changed(made, study=study)
    )


def test_odd_names_are_escaped() -> None:
    made = results()
    rows = [made.study.rows[0].model_copy(update={"name": "a|b_$"}), *made.study.rows[1:]]
    cells = [o.model_copy(update={"row": "a|b_$"}) if o.row == "FedAvg" else o for o in made.cells]
    odd = changed(made, study=made.study.model_copy(update={"rows": rows}), cells=cells)
    assert r"| a\|b_$ |" in paper_table(odd)
    assert r"a|b\_\$ &" in paper_table(odd, form="latex")


def test_curves_are_drawn_at_the_rounds_that_were_tested() -> None:
    one = results().cells[0].model_copy(update={"at": (10, 20, 25), "accuracy": (1.0, 2.0, 3.0)})
    assert one.curve == {10: 1.0, 20: 2.0, 25: 3.0}

    def method(**second: tuple[float, ...]) -> Method:
        cells = [one, one.model_copy(update={"seed": 1, **second})]
        return methods_of(from_results(changed(results(), cells=cells), Path()))[0]

    per_cent = of_key("accuracy", 100)
    short = method(at=(), accuracy=(5.0, 6.0))
    assert short.band(per_cent).at == [1, 2, 10, 20, 25]
    swings = method(accuracy=(3.0, 1.0, 4.0))
    assert swings.band(per_cent).means == pytest.approx([2.0, 1.5, 3.5])
    assert best_so_far(swings).band(per_cent).means == pytest.approx([2.0, 2.5, 3.5])


@pytest.mark.parametrize("figure", PANELS)
def test_every_kind_of_picture_can_be_drawn(figure: str, tmp_path: Path) -> None:
    made = results()
    rename = {"E=1": "chance 1", "E=8": "chance 0.5"} if figure == "chances" else {}
    rows = [
        row.model_copy(update={"algorithm": f"fedfor,strength=step,alpha={i + 1}"})
        for i, row in enumerate(made.study.rows)
    ]
    points = [p.model_copy(update={"name": rename.get(p.name, p.name)}) for p in made.study.points]
    study = made.study.model_copy(update={"figure": figure, "points": points, "rows": rows})
    cells = [o.model_copy(update={"point": rename.get(o.point, o.point)}) for o in made.cells]
    made = changed(made, study=study, cells=cells)
    draw_figure(made, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(ConfigError, match=r"must end in \.png"):
        draw_figure(made, tmp_path / "figure.gif")


def test_a_strength_in_every_reading() -> None:
    """At a rate of 0.05, with 10 steps at E=1 and 80 at E=8, c = 5 is the published one."""
    made = results()
    study = made.study.model_copy(update={"config": {"training": {"lr": 0.05}}})
    found = alphas(changed(made, study=study))
    assert found.keys() == {("E=1", "FedFOR"), ("E=8", "FedFOR")}
    assert found["E=1", "FedFOR"] == pytest.approx({"loss": 5, "equation": 0.25, "step": 2.5})
    assert found["E=8", "FedFOR"] == pytest.approx({"loss": 5, "equation": 0.25, "step": 20})
    diverged = [o.model_copy(update={"diverged": True}) for o in made.cells]
    assert alphas(changed(made, study=study, cells=diverged)) == found  # a gap in the picture
    sweep = study.model_copy(update={"figure": "sweep"})
    with pytest.raises(ConfigError, match="all of these runs diverged"):
        draw_figure(changed(made, study=sweep, cells=diverged), Path("none.png"))
    for steps in ({}, {"local_steps": 0.0}):
        cells = [o.model_copy(update={"metrics": {"best": 0.5, **steps}}) for o in made.cells]
        with pytest.raises(ConfigError, match="no run of FedFOR here tells its local steps"):
            draw_figure(changed(made, study=sweep, cells=cells), Path("none.png"))


def test_nobody_wins_by_local_steps() -> None:
    table = paper_table(results(), metrics=["local_steps"])
    assert "E=8, local steps" in table
    assert "**" not in table


def test_lines_can_be_told_apart() -> None:
    styles = [line_style(place) for place in range(40)]
    assert all(a != b for i, a in enumerate(styles) for b in styles[:i])


def test_the_legend_names_rows_that_the_first_panel_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    monkeypatch.setattr(Figure, "legend", lambda self, lines, names, **_: named.extend(names))
    made = results()
    cells = [o for o in made.cells if (o.point, o.row) != ("E=1", "FedFOR")]
    draw_figure(changed(made, cells=cells), tmp_path / "figure.png")
    assert sorted(named) == ["FedAvg", "FedAvgM", "FedFOR"]
