"""Pictures of a study."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..algorithms.fedfor import Strength
from ..errors import ConfigError
from ..experiments.simulation import Record
from ..paper.results import Results
from ..paper.study import point_chance
from .loading import from_results
from .methods import methods_of
from .palette import COLOURS, line_style
from .plots.curves import best_so_far, draw_paper, draw_shifts
from .plots.lines import draw_band
from .plots.style import need_matplotlib
from .strengths import READINGS, alphas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_figure(results: Results, path: Path) -> None:
    """The picture that the study asks for."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--figure {path}: it must end in .png, .svg or .pdf")
    panels = PANELS[results.study.figure](results)
    if not panels:
        raise ConfigError("--figure: there is nothing to draw in these results")
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(1 + 3.6 * columns, 0.7 + 2.9 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes: list[Any] = figure.subplots(lines, columns, squeeze=False).flatten().tolist()
    for axes, draw in zip(all_axes, panels, strict=False):
        draw(axes)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    lines_of: dict[str, Any] = {}  # of every panel: a row may be missing from the first
    for axes in all_axes:
        lines_of |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    beside = min(4, 2 * columns)
    below = -(-len(lines_of) // beside)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, below - 2))
    figure.legend(
        list(lines_of.values()),
        list(lines_of),
        loc="outside lower center",
        ncols=beside,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(results.study.title, x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=130)


Panel = Callable[["Axes"], None]


def _curves(results: Results) -> list[Panel]:
    """Accuracy by round, one panel a point; crosses are the paper's numbers.

    Where the study counts the best round so far, as the paper's numbers do, so do the lines.
    """
    so_far = "best" in results.study.metrics
    methods = methods_of(from_results(results, Path()))
    places = {row: place for place, row in enumerate(results.rows)}

    def panel(point: str) -> Panel:
        of_point = [method for method in methods if method.point == point]

        def draw(axes: "Axes") -> None:
            for method in of_point:
                drawn = best_so_far(method) if so_far else method
                band, place = drawn.band(_per_cent), places[method.label]
                draw_band(axes, band, method.label, place, lw=1.2, alpha=0.12)
                draw_paper(axes, method, place, ms=7, mew=1.8)
            draw_shifts(axes, of_point)
            axes.set_title(point, loc="left", fontsize=10)
            axes.set_xlabel("round")
            axes.set_ylabel("best test accuracy so far, %" if so_far else "test accuracy, %")

        return draw

    return [panel(point) for point in results.points]


def _per_cent(record: Record) -> float:
    """As the file of results has it, to the last bit, so that a picture can be made again."""
    return round(100 * float(record["accuracy"]), 2)


def _sweep(results: Results) -> list[Panel]:
    """Accuracy against alpha, one panel a reading, one line a number of local epochs."""
    known = alphas(results)

    def panel(reading: Strength) -> Panel:
        def draw(axes: "Axes") -> None:
            for place, point in enumerate(results.points):
                mine = sorted((a[reading], row) for (p, row), a in known.items() if p == point)
                values = [_best(results, point, row) for _, row in mine]
                style = line_style(place)
                axes.plot(
                    [alpha for alpha, _ in mine], values, marker="o", ms=4, label=point, **style
                )
                if "FedAvg" in results.rows:
                    plain = _best(results, point, "FedAvg")
                    axes.axhline(plain, lw=0.8, ls=":", color=style["color"])
            axes.set_xscale("log", base=2)
            every = sorted({float(f"{a[reading]:.4g}") for a in known.values()})
            axes.set_xticks(every[::2], [f"{alpha:g}" for alpha in every[::2]])
            axes.set_title(f"strength = {reading}", loc="left", fontsize=10)
            axes.set_xlabel("alpha (dotted: FedAvg)")
            axes.set_ylabel("best test accuracy, %")

        return draw

    if all(o.diverged for o in results.cells):
        raise ConfigError("--figure: all of these runs diverged, so there is nothing to draw")
    if not known:
        raise ConfigError(
            "--figure: no run of FedFOR here tells its local steps, which other units of strength "
            "need; 'fedfor reproduce' makes results that do"
        )
    return [panel(reading) for reading in READINGS]


def _chances(results: Results) -> list[Panel]:
    """Accuracy, and the state of all clients, against the chance of seeing a client again."""
    chances = [point_chance(point) for point in results.points]

    def panel(metric: str, scale: float, title: str) -> Panel:
        def draw(axes: "Axes") -> None:
            for place, row in enumerate(results.rows):
                spreads = [results.spread(point, row, metric) for point in results.points]
                means = [float("nan") if s.mean is None else scale * s.mean for s in spreads]
                errors = [scale * (s.deviation or 0.0) for s in spreads]
                at = range(len(chances))
                style = line_style(place)
                axes.errorbar(at, means, errors, marker="o", ms=4, capsize=2, label=row, **style)
            axes.set_xticks(range(len(chances)), [f"{c:g}" for c in chances])
            axes.set_xlabel("chance of seeing a client again")
            axes.set_ylabel(title)

        return draw

    return [
        panel("best", 100, "best test accuracy, %"),
        panel("state_bytes", 1 / 2**20, "state on clients, MiB"),
    ]


def _bytes(results: Results) -> list[Panel]:
    """Accuracy against what goes down to a client in a round."""

    def panel(point: str) -> Panel:
        metric = "down_cross_silo" if "silo" in point else "down_cross_device"

        def draw(axes: "Axes") -> None:
            for place, row in enumerate(results.rows):
                down, best = (results.spread(point, row, m) for m in (metric, "best"))
                if down.mean is None or best.mean is None:
                    continue
                at, colour = down.mean / 2**20, COLOURS[place % len(COLOURS)]
                error = 100 * (best.deviation or 0.0)
                marker = "osD^vP*X<>"[place % 10]
                axes.errorbar(
                    [at], [100 * best.mean], [error], marker=marker, ls="", label=row, color=colour
                )
            axes.set_title(point, loc="left", fontsize=10)
            axes.set_xlabel("MiB down, all rounds and clients")
            axes.set_ylabel("best test accuracy, %")

        return draw

    return [panel(point) for point in results.points]


PANELS: dict[str, Callable[[Results], list[Panel]]] = {
    "curves": _curves,
    "sweep": _sweep,
    "chances": _chances,
    "bytes": _bytes,
}


def _best(results: Results, point: str, row: str) -> float:
    mean = results.spread(point, row, "best").mean
    return float("nan") if mean is None else 100 * mean
