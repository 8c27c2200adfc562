"""The table, the page on a deployment and the figure, of results made by hand."""

import io
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from rich.console import Console

from fedfor.errors import ConfigError, FolderError
from fedfor.experiments.deployment import Given
from fedfor.experiments.scale_machine import Machine
from fedfor.experiments.scale_plan import Plan
from fedfor.experiments.scale_results import ScaleResults
from fedfor.report.deployment import deployment_markdown, deployment_title
from fedfor.report.plots.scale import draw_scale
from fedfor.report.scale import scale_markdown, scale_rows, scale_table
from fedfor.report.scale_files import write_scale_files

from .made_scale import MIB, made_cost, made_measured, made_plan, made_results

SERIAL: dict[str, Any] = {"workers": (), "engine": "serial"}


# The table


def rows_of(results: ScaleResults) -> list[dict[str, str]]:
    titles, rows = scale_rows(results)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_a_row_has_what_was_measured() -> None:
    base, *others = rows_of(made_results())
    assert base == {
        "": "base", "population": "10^10", "cohort": "100", "workers": "4", "model": "cnn",
        "parameters": "12,810", "seconds": "0.0287", "clients/s": "3,480", "speed-up": "3.48",
        "busy": "82.5 %", "driver MiB": "400", "rounds MiB": "10", "worker MiB": "503",
    }  # fmt: skip
    assert [row[""] for row in others] == (
        ["population"] * 3 + ["cohort"] * 3 + ["workers"] * 2 + ["model"] * 2
    )
    assert [row["speed-up"] for row in others if row[""] == "workers"] == ["1.00", "1.87"]
    assert {row["speed-up"] for row in others if row[""] == "cohort"} == {"-"}


def test_the_middle_of_the_rounds_counts() -> None:
    plan = made_plan()
    results = made_results(plan)
    results.put(made_measured(plan.base, seconds=(9.0, 1.0, 2.0)))
    assert (rows_of(results)[0]["seconds"], rows_of(results)[0]["clients/s"]) == ("2.00", "50.0")


def test_an_engine_of_one_process_has_no_columns_of_workers() -> None:
    titles, _ = scale_rows(made_results(made_plan(**SERIAL)))
    assert titles == [
        "", "population", "cohort", "model", "parameters", "seconds", "clients/s", "driver MiB",
        "rounds MiB",
    ]  # fmt: skip


def test_what_failed_and_what_is_not_known_is_told() -> None:
    plan = made_plan()
    case = plan.along("cohort")[3]
    results = made_results(plan, failed=[case])
    results.put(made_measured(plan.base, memory=None, memory_before=None))
    results.problems["cnn"] = "it broke"
    (failed,) = [row for row in rows_of(results) if row["cohort"] == "10,000"]
    assert (failed["seconds"], failed["clients/s"], failed["busy"]) == ("failed", "-", "-")
    assert (rows_of(results)[0]["driver MiB"], rows_of(results)[0]["rounds MiB"]) == ("-", "-")
    text = scale_markdown(results)
    assert "\nFailed, cohort 10,000: it took longer than 900 s.\n" in text
    assert text.endswith("Failed, what methods send, keep and sum of cnn: it broke.\n")


def test_the_table_in_markdown_is_whole() -> None:
    plan = made_plan(models=("linear",))
    lines = scale_markdown(made_results(plan)).splitlines()
    assert lines[1] == "|---|---:|---:|---:|---|" + "---:|" * 8
    table = lines[: lines.index("")]
    assert len(table) == 2 + len(plan.cases)
    assert {line.count("|") for line in table} == {14}
    assert lines[len(table) + 1 :] == [
        "fedfor with the engine ray, 20 samples each in batches of 10; seconds: the median of 3 "
        "rounds after those in which workers got ready.",
        "MiB: the most resident, of the driver; of that, what came with its rounds; and of the "
        "worker that had the most.",
        "Made CPU, 4 cores, 8.00 GiB of memory, python 3.11.7, torch 2.9.0, commit abc1234, "
        "2026-01-02.",
    ]


def test_one_of_each_is_told_in_the_singular() -> None:
    plan = made_plan(**SERIAL, rounds=1, samples=1)
    cluster = Machine(
        processor="Made CPU", cores=1, memory=None, platform="Linux", nodes=1, cpus=64
    )
    text = scale_markdown(made_results(plan, machine=cluster, commit=""))
    assert "1 sample each in batches of 10; seconds: one round after the first." in text
    assert "\n1 node with 64 CPUs, driven from Made CPU, 1 core, python 3.11.7" in text
    assert "commit" not in text


def printed(results: ScaleResults) -> str:
    console = Console(width=160, file=io.StringIO())
    console.print(scale_table(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_brackets_are_no_markup_and_bars_no_columns() -> None:
    plan = made_plan()
    results = made_results(plan, failed=plan.cases[-1:], problem="ValueError: no [/b] [red] a | b")
    assert "no [/b] [red] a | b" in printed(results)
    results = made_results()
    odd = made_measured(plan.base)
    named = odd.model_copy(update={"case": plan.base.model_copy(update={"model": "a|[/b]"})})
    own = ScaleResults(made=results.made, plan=made_plan(models=("a|[/b]",)), cases=[named])
    assert "a|[/b]" in printed(own)
    assert r"| a\|[/b] |" in scale_markdown(own)


def test_results_of_a_command_that_was_stopped_at_once_can_be_shown(tmp_path: Path) -> None:
    results = ScaleResults(made=made_results().made, plan=made_plan())
    text = scale_markdown(results)
    assert text.startswith("Nothing is measured yet.\n\nfedfor with the engine ray")
    assert "no figure, as no case was measured" in write_scale_files(results, tmp_path)


# The page


def table(page: str, title: str) -> dict[str, list[str]]:
    """The cells of each row of a table."""
    section = page.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture
def page() -> str:
    """Of FedFOR, and a method that keeps as much as the model; a cost of another model beside."""
    costs = [
        made_cost("fedfor", "linear"),
        made_cost("fedfor"),
        made_cost("scaffold", kept=4_000_000, up=8_000_000, down_silo=8_000_000),
    ]
    return deployment_markdown(made_results(costs=costs))


def test_the_page_has_a_row_for_each_method(page: str) -> None:
    for title in (
        "In short",
        "Counted: bytes of a client",
        "Derived: bytes of a round",
        "Derived: memory of the server",
        "Derived: state of all clients",
        "Measured: the time of summing",
        "Derived: time of aggregation",
    ):
        assert list(table(page, title)) == ["fedfor", "scaffold"]
    assert list(table(page, "Measured: the same for fedfor, by model")) == ["linear", "mine"]
    assert page.startswith("Given: the model mine, 1,000,000 parameters in 3.81 MiB; 10^7 and")
    assert deployment_title() == "A deployment at 10^7 and 10^10 clients"


def test_numbers_of_the_page_are_as_by_hand(page: str) -> None:
    """A model of 4 MB is 3.81 MiB."""
    # 96 or 128 s at 10 Gbit/s, then 2.01 s for the 1,000 of each of 10 workers
    assert table(page, "In short") == {
        "fedfor": ["74.5 GiB", "37.3 GiB", "1.63 min", "237 MiB", "0 B", "0 B"],
        "scaffold": ["74.5 GiB", "74.5 GiB", "2.17 min", "240 MiB", "36.4 TiB", "35.5 PiB"],
    }
    assert table(page, "Counted: bytes of a client") == {
        "fedfor": ["7.63 MiB", "3.81 MiB", "3.81 MiB", "0 B"],
        "scaffold": ["7.63 MiB", "7.63 MiB", "7.63 MiB", "3.81 MiB"],
    }
    # 1,000 clients: 8 GB down and 4 GB up, at 10 Gbit/s
    assert table(page, "Derived: bytes of a round")["fedfor"] == [
        "7.45 GiB", "3.73 GiB", "9.60 s", "74.5 GiB", "37.3 GiB", "1.60 min",
    ]  # fmt: skip
    # in a round, 2 + 3 + 10 or 14 times 4 + 1 models
    assert table(page, "Derived: memory of the server")["fedfor"] == [
        "7.63 MiB", "15.3 MiB", "175 MiB", "237 MiB",
    ]  # fmt: skip
    # 10^7 times 4 MB are 40 TB; after 10^4 rounds of 10^4, all of 10^7, and 9.95e7 of 10^10
    assert table(page, "Derived: state of all clients") == {
        "fedfor": ["0 B"] * 5,
        "scaffold": ["36.4 TiB", "35.5 PiB", "36.4 TiB", "362 TiB", "37.3 GiB"],
    }
    assert table(page, "Measured: the time of summing")["fedfor"] == [
        "2.00 ms", "1.00 ms", "10.0 ms",
    ]  # fmt: skip
    assert table(page, "Derived: time of aggregation")["fedfor"] == [
        "2.01 s", "214 ms", "37.0 ms", "20.0 s", "2.01 s", "217 ms",
    ]  # fmt: skip
    by_model = table(page, "Measured: the same for fedfor, by model")
    assert by_model["mine"] == ["10^6", "2.00 ms", "1.00 ms", "10.0 ms", "2.00 ns"]


def test_whether_a_client_has_any_state_is_as_by_hand(page: str) -> None:
    title = "Derived: whether a client that is called has any state"
    section = page.split(title)[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| 10^")]
    assert rows == [
        "| 10^7 clients | 1,000 | 10,000 | 0.0100 % | 0.995 % | 9.52 % | 63.2 % |",
        "| 10^7 clients | 10,000 | 1,000 | 0.100 % | 9.52 % | 63.2 % | 100 % |",
        "| 10^10 clients | 1,000 | 10,000,000 | 0.0000100 % | 0.00100 % | 0.0100 % | 0.100 % |",
        "| 10^10 clients | 10,000 | 1,000,000 | 0.000100 % | 0.0100 % | 0.100 % | 0.995 % |",
    ]


def test_the_page_tells_what_was_simulated_and_where(page: str) -> None:
    assert (
        "Measured: simulated here, a round of 100 clients took 28.7 ms among 1,000 and 28.7 ms "
        "among 10^10, 1.00 times as long." in page
    )
    assert page.rstrip().endswith("commit abc1234, 2026-01-02.")
    lone = made_results(made_plan(populations=(10**6,)), costs=[made_cost()])
    assert "simulated here" not in deployment_markdown(lone)


def test_the_page_has_other_numbers_where_others_are_given() -> None:
    given = Given(populations=(500,), cohorts=(500,), rounds=(1,), workers=(1,), link=8e6)
    page = deployment_markdown(made_results(costs=[made_cost(kept=1024)]), given, level=3)
    assert "\n### Counted: bytes of a client\n" in page
    assert "\n## " not in page
    assert "| 500 clients | 500 | 1.00 | 100 % | 100 % |" in page
    assert "| fedfor | 500 KiB | 500 KiB |" in page
    assert "| 3.73 GiB | 1.86 GiB | 1.67 h |" in page  # 6 GB at 1 MB/s
    assert deployment_title(given) == "A deployment at 500 clients"


def test_without_costs_there_is_no_page() -> None:
    with pytest.raises(FolderError, match="do not tell what methods send and keep"):
        deployment_markdown(made_results())


# The figure


def panels(results: ScaleResults) -> list[Axes]:
    return draw_scale(results).axes[:4]


def points(axes: Axes, place: int = 0) -> list[tuple[float, float]]:
    line = axes.get_lines()[place]
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))  # type: ignore[arg-type]


def ticks(axes: Axes) -> list[str]:
    axes.figure.canvas.draw()
    return [text.get_text() for text in axes.get_xticklabels()]


def test_panels_show_the_medians() -> None:
    results = made_results()
    population, cohort, workers, model = panels(results)
    for axes, axis in ((population, "population"), (cohort, "cohort")):
        along = results.along(axis)
        assert points(axes) == [(getattr(one.case, axis), one.a_round) for one in along]
    sped = [(1.0, 1.0), (2.0, 2**0.9), (4.0, 4**0.9)]
    assert points(workers, 1) == [(n, pytest.approx(up)) for n, up in sped]
    assert points(workers, 0) == [(1, 1), (2, 2), (4, 4)]
    assert [x for x, _ in points(model)] == [650, 12_810, 271_834]
    assert [text.get_text() for text in model.texts] == ["linear", "cnn", "resnet20"]
    assert [axes.get_title(loc="left") for axes in (population, cohort, workers, model)] == [
        "100 a round, 4 workers, cnn",
        "10^10 clients, 4 workers, cnn",
        "10^10 clients, 100 a round, cnn",
        "10^10 clients, 100 a round, 4 workers",
    ]


def test_bars_go_from_the_fastest_to_the_slowest_round() -> None:
    results = made_results(made_plan(populations=(10**6,)))
    (one,) = results.along("population")
    axes = panels(results)[0]
    (bar,) = axes.collections[0].get_segments()  # type: ignore[attr-defined]
    assert [y for _, y in bar] == pytest.approx([min(one.seconds), max(one.seconds)])
    low, high = axes.get_ylim()
    assert low == 0
    assert high > max(one.seconds)


def test_memory_of_the_driver_is_beside_the_cohorts() -> None:
    results = made_results()
    beside = draw_scale(results).axes[4]
    assert [y for _, y in points(beside)] == pytest.approx(
        [400 + 1000 * cohort / MIB for cohort in results.plan.cohorts]
    )
    results.cases[:] = [one.model_copy(update={"memory": None}) for one in results.cases]
    assert len(draw_scale(results).axes) == 4


def test_ticks_are_where_something_was_measured_and_can_be_read() -> None:
    population, cohort, workers, model = panels(made_results())
    assert ticks(population) == ["1,000", "10^5", "10^7", "10^10"]
    assert ticks(cohort) == ["10", "100", "1,000", "10,000"]
    assert ticks(workers) == ["1", "2", "4"]
    assert ticks(model) == ["1,000", "10,000", "10^5"]


def test_names_of_models_are_inside_of_their_panel() -> None:
    plan, odd = made_plan(), "mypackage.models:ALargeTransformer"
    results = made_results(plan)
    for case, name in ((plan.along("model")[0], odd), (plan.along("model")[2], f"{odd}2")):
        one = results.of(case)
        assert one is not None
        named = one.model_copy(update={"case": case.model_copy(update={"model": name})})
        results.put(named)
    models = (odd, "cnn", f"{odd}2")
    results = ScaleResults(made=results.made, plan=made_plan(models=models), cases=results.cases)
    axes = panels(results)[3]
    axes.figure.canvas.draw()
    panel = axes.get_window_extent()
    for text in axes.texts:
        name = text.get_window_extent()
        assert panel.x0 <= name.x0 < name.x1 <= panel.x1
        assert panel.y0 <= name.y0 < name.y1 <= panel.y1
    assert len({text.get_text() for text in axes.texts}) == 3


def words(axes: Axes) -> list[str]:
    return [] if axes.axison else [text.get_text() for text in axes.texts]


def test_an_engine_without_workers_says_so_and_no_more() -> None:
    workers = panels(made_results(made_plan(**SERIAL)))[2]
    assert words(workers) == ["workers: not an axis of this engine"]
    assert workers.get_title(loc="left") == ""


@pytest.mark.parametrize(
    "plan",
    [
        made_plan(populations=(1_000,), cohorts=(10,), workers=(1,), models=("linear",)),
        made_plan(populations=(1_000,), cohorts=(10,), models=("linear",), **SERIAL),
    ],
)
def test_one_value_on_each_axis_is_drawn(plan: Plan, tmp_path: Path) -> None:
    results = made_results(plan)
    assert len(points(panels(results)[0])) == 1
    assert ticks(panels(results)[3]) == ["650"]
    assert write_scale_files(results, tmp_path).startswith("; no deployment.md")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in (tmp_path / "scale.svg").read_bytes()


def test_cases_that_failed_are_left_out() -> None:
    plan = made_plan()
    population, _, workers, _ = panels(made_results(plan, failed=[plan.base]))
    assert [x for x, _ in points(population)] == [1_000, 10**5, 10**7]
    assert [x for x, _ in points(workers, 1)] == [1, 2]
    alone = plan.along("workers")[0]
    workers = panels(made_results(plan, failed=[alone]))[2]
    assert words(workers) == ["no speed-up: one worker was not measured"]
    assert workers.get_title(loc="left") == ""
    (population, *_) = panels(made_results(plan, failed=plan.along("population")))
    assert words(population) == ["population: not measured"]


def test_nothing_that_was_measured_is_no_figure() -> None:
    plan = made_plan()
    with pytest.raises(ConfigError, match="no case was measured"):
        draw_scale(made_results(plan, failed=plan.cases))


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    results = made_results(costs=[made_cost()])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert write_scale_files(results, tmp_path / name) == ""
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["deployment.md", "scale.png", "scale.svg", "table.md"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
