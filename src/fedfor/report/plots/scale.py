"""Time and memory of a round against population, cohort, workers and model size."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...experiments.scale_results import Measured, ScaleResults
from ..palette import COLOURS
from ..quantities import whole
from .lines import write_plainly
from .style import FAINT, PAGE, SMALL, styled
from .text import fitted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 4.6
NAME = 1.2
"""Inches that a model's name may take beside its point."""
ABOVE: dict[str, Any] = {"xytext": (-4, 3), "ha": "right", "va": "bottom"}
BELOW: dict[str, Any] = {"xytext": (4, -3), "ha": "left", "va": "top"}
TIME, MEMORY = COLOURS[0], COLOURS[4]
SECONDS = "seconds a round"
NO_AXIS = "not an axis of this engine"
LINE: dict[str, Any] = {"marker": "o", "ms": 3.6, "capsize": 2.0, "elinewidth": 0.8}


def draw_scale(results: ScaleResults) -> "Figure":
    """Four panels; bars go from the fastest to the slowest round of a case."""
    if not any(one.a_round for one in results.cases):
        raise ConfigError("no case was measured, so there is nothing to draw")
    with styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.04, hspace=0.04)
        figure = Figure(figsize=(PAGE, HEIGHT), layout=layout)
        FigureCanvasAgg(figure)
        panels = zip(figure.subplots(2, 2).flatten().tolist(), PANELS.items(), strict=True)
        for axes, (axis, draw) in panels:
            if along := results.along(axis):
                axes.set_title(_title(results, axis))
                draw(axes, results, along)
            else:
                what = "not measured" if getattr(results.plan.base, axis) else NO_AXIS
                _nothing(axes, f"{axis}: {what}")
        return figure


def _title(results: ScaleResults, axis: str) -> str:
    """What stays the same in the panel."""
    base = results.plan.base
    told = {
        "population": f"{whole(base.population)} clients",
        "cohort": f"{whole(base.cohort)} a round",
        "workers": f"{base.workers} workers" if base.workers != 1 else "1 worker",
        "model": plain(base.model),
    }
    same = [words for name, words in told.items() if name != axis and getattr(base, name)]
    return ", ".join(same)


def _nothing(axes: "Axes", why: str) -> None:
    axes.clear()
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes)


def _population(axes: "Axes", results: ScaleResults, along: Sequence[Measured]) -> None:
    _times(axes, [one.case.population for one in along], along)
    axes.set_xscale("log")
    _ticks(axes, [one.case.population for one in along])
    axes.set_ylim(0, 1.1 * max(max(one.seconds) for one in along))
    axes.set_xlabel("clients in the population")
    axes.set_ylabel(SECONDS)


def _cohort(axes: "Axes", results: ScaleResults, along: Sequence[Measured]) -> None:
    at = [one.case.cohort for one in along]
    _times(axes, at, along)
    _both_log(axes, at)
    axes.set_xlabel("clients called a round")
    axes.set_ylabel(SECONDS, color=TIME)
    told = [(x, one.memory / 2**20) for x, one in zip(at, along, strict=True) if one.memory]
    if not told:
        return
    beside = axes.twinx()
    beside.plot(*zip(*told, strict=True), color=MEMORY, ls="--", marker="s", ms=3.2)
    beside.set_ylim(0, 1.35 * max(size for _, size in told))
    beside.set_ylabel("MiB in the driver", color=MEMORY)
    beside.grid(visible=False)
    beside.spines["right"].set_visible(True)


def _workers(axes: "Axes", results: ScaleResults, along: Sequence[Measured]) -> None:
    sped = [(one.case.workers, results.speed_up(one)) for one in along]
    told = [(n, up) for n, up in sped if n is not None and up is not None]
    if not told:
        _nothing(axes, "no speed-up: one worker was not measured")
        return
    counts = [n for n, _ in told]
    axes.plot(counts, counts, color=FAINT, ls="--", label="ideal")
    axes.plot(*zip(*told, strict=True), color=TIME, marker="o", ms=3.6, label="measured")
    _both_log(axes, counts)
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up over one worker")
    axes.legend(loc="upper left")


def _model(axes: "Axes", results: ScaleResults, along: Sequence[Measured]) -> None:
    at = [one.parameters for one in along]
    _times(axes, at, along)
    _both_log(axes, _powers(at))
    axes.margins(x=0.2, y=0.15)
    for x, one in zip(at, along, strict=True):
        assert one.a_round is not None
        # Above the line where it ends, below it where it begins: both are inside.
        where = ABOVE if 2 * math.log(x) >= math.log(min(at)) + math.log(max(at)) else BELOW
        name = fitted(one.case.model, NAME, SMALL, most=1)
        axes.annotate(name, (x, one.a_round), textcoords="offset points", fontsize=SMALL, **where)
    axes.set_xlabel("parameters of the model")
    axes.set_ylabel(SECONDS)


def _times(axes: "Axes", at: Sequence[float], along: Sequence[Measured]) -> None:
    middle = [one.a_round or 0.0 for one in along]
    below = [mid - min(one.seconds) for mid, one in zip(middle, along, strict=True)]
    above = [max(one.seconds) - mid for mid, one in zip(middle, along, strict=True)]
    axes.errorbar(at, middle, [below, above], color=TIME, **LINE)


def _both_log(axes: "Axes", ticks: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    write_plainly(axes.yaxis)
    _ticks(axes, ticks)


def _powers(values: Sequence[int]) -> Sequence[int]:
    """Those of ten among which these are; the values themselves, where that is only one."""
    found = [10**n for n in range(20) if min(values) <= 10**n <= max(values)]
    return found if len(found) > 1 else sorted({min(values), max(values)})


def _ticks(axes: "Axes", values: Sequence[int]) -> None:
    """There, and nowhere else: most often where something was measured."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: whole(round(value)))


Draw = Callable[["Axes", ScaleResults, Sequence[Measured]], None]
PANELS: dict[str, Draw] = {
    "population": _population,
    "cohort": _cohort,
    "workers": _workers,
    "model": _model,
}
