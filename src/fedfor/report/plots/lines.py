"""Lines with bands over seeds, which most figures are made of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..loading import LoadedRun
from ..methods import Band, Method
from ..palette import line_style
from ..table import label
from .asked import Asked
from .style import LINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Entries = list[tuple[str, dict[str, Any]]]


def draw_band(
    axes: "Axes",
    band: Band,
    name: str,
    place: int,
    *,
    at: Sequence[float] | None = None,
    lw: float = LINE,
    alpha: float = 0.14,
) -> None:
    """The mean, and one deviation to both sides. `at` has other places than the band's rounds."""
    style, at = line_style(place), band.at if at is None else at
    alone: dict[str, Any] = (
        {"marker": "o", "ms": 3} if len(at) == 1 else {}
    )  # else there is nothing to see
    axes.plot(at, band.means, lw=lw, label=name, **style, **alone)
    both = list(zip(band.means, band.deviations, strict=True))
    low, high = [m - d for m, d in both], [m + d for m, d in both]
    axes.fill_between(at, low, high, alpha=alpha, lw=0, color=style["color"])


def told_labels(methods: Iterable[Method]) -> dict[str, str]:
    """Each name once, with a word about seeds that diverged or are not done."""
    named: dict[str, str] = {}
    for method in methods:
        told = label(method)  # of several points, where one has such a word: that one
        if method.label not in named or told != method.label:
            named[method.label] = told
    return named


def entries(asked: Asked, methods: Iterable[Method]) -> Entries:
    """For the legend, in the order of all figures of these runs."""
    named, places = told_labels(methods), asked.places
    order = sorted(named, key=lambda name: places.get(name, 0))
    return [(named[name], {**line_style(places.get(name, 0)), "lw": LINE}) for name in order]


def with_records(method: Method, change: Callable[[LoadedRun], list[dict[str, Any]]]) -> Method:
    """The same method with other records."""
    runs = [replace(run, records=change(run)) for run in method.runs]
    return Method(method.label, method.point, runs)


def set_scales(axes: "Axes", asked: Asked) -> None:
    if asked.log_x:
        axes.set_xscale("log")
        write_plainly(axes.xaxis)
    if asked.log_y:
        axes.set_yscale("log")
        write_plainly(axes.yaxis)


def write_plainly(axis: "Axis") -> None:
    """0.01, 1, 100: the powers of ten that matplotlib writes need its mathematics."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def whole_rounds(axes: "Axes") -> None:
    """No ticks between rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=[1, 2, 5, 10]))
