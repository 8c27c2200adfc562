"""What was sent, and what clients must keep."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..methods import Method, of_key
from ..palette import COLOURS
from ..sound import number
from ..table import label
from .asked import Asked
from .frame import Frame, Panel, framed
from .lines import Entries, draw_band, entries, set_scales, told_labels, whole_rounds
from .missing import nothing, told_by
from .rows import Rows
from .style import unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "down_cross_device": ("down, cross-device", {"facecolor": COLOURS[0], "hatch": ""}),
    "down_cross_silo": ("down, cross-silo", {"facecolor": COLOURS[5], "hatch": "//////"}),
    "up": ("up", {"facecolor": COLOURS[1], "hatch": "......"}),
}
EDGE: dict[str, Any] = {"edgecolor": "black", "lw": 0.4}


def draw_bytes(asked: Asked) -> "Figure":
    """All rounds and clients together; of runs that ended well, as a sum over fewer rounds than
    the others' would flatter."""
    totals = [total for m in asked.methods for way in WAYS if (total := m.spread(way).mean)]
    if not totals:
        raise ConfigError(_no_totals(asked.methods))
    name, divisor = unit(max(totals))
    rows = Rows(told_labels(asked.methods), asked.width, least=0.34)

    def panel(of_point: Sequence[Method]) -> Panel:
        def draw(axes: "Axes") -> None:
            for method in of_point:
                _draw_bars(axes, method, rows.order[method.label], divisor)
            rows.draw(axes)
            axes.set_xlim(left=0)

        return Panel(draw, of_point[0].point)

    frame = Frame(
        f"{name} in all rounds",
        legend=[(title, {**style, **EDGE}) for title, style in WAYS.values()],
        narrowest=rows.narrowest(asked.width),
        row_height=rows.height,
    )
    return framed(asked, [panel(of_point) for of_point in asked.by_point.values()], frame)


def _draw_bars(axes: "Axes", method: Method, row: int, divisor: float) -> None:
    sums = {way: method.spread(way).mean for way in WAYS}
    for place, (way, (_, style)) in enumerate(WAYS.items()):
        if (total := sums[way]) is not None:
            at = row + 0.27 * (place - 1)
            axes.barh(at, total / divisor, 0.25, label=way, **style, **EDGE)
    if any(total is None for total in sums.values()):
        words = label(method).removeprefix(method.label).strip(" []") or "not told"
        axes.annotate(words, (0, row), (3, 0), textcoords="offset points", va="center", fontsize=6)


def _no_totals(methods: Sequence[Method]) -> str:
    runs = [run for method in methods for run in method.runs]
    if runs and all(run.state == "diverged" for run in runs):
        return "all of these runs diverged, so there is nothing to draw"
    if not any(run.state == "done" for run in runs):
        return "none of these runs has ended, and sums of bytes are of whole runs; wait for one"
    return nothing(methods, "its bytes")


def draw_state(asked: Asked) -> "Figure":
    """What all clients keep together, by round."""
    what = "the state on its clients by round"
    methods = told_by(asked.methods, lambda r: number(r, "state_bytes"), what)
    kept = [number(r, "state_bytes") or 0.0 for m in methods for u in m.runs for r in u.records]
    name, divisor = unit(max(kept))
    if asked.log_y and not any(kept):
        raise ConfigError("--log-y: no method here keeps state on clients, and 0 has no logarithm")

    def panel(of_point: Sequence[Method]) -> Panel:
        def draw(axes: "Axes") -> None:
            for method in of_point:
                band = method.band(of_key("state_bytes", 1 / divisor))
                draw_band(axes, band, method.label, asked.place(method))
            whole_rounds(axes)
            set_scales(axes, asked)
            if not any(kept):
                axes.set_ylim(-0.05, 1)

        return Panel(draw, of_point[0].point)

    panels = [panel(of_point) for of_point in Asked(methods).by_point.values()]
    y_label = f"state on clients, {name}"
    return framed(asked, panels, Frame("round", y_label, _with_none(asked, methods)))


def _with_none(asked: Asked, methods: Sequence[Method]) -> Entries:
    """Lines at 0 hide each other, so the legend tells them."""
    keepers = {
        m.label for m in methods for run in m.runs for r in run.records if number(r, "state_bytes")
    }
    order = sorted({m.label for m in methods}, key=lambda name: asked.places.get(name, 0))
    named = zip(order, entries(asked, methods), strict=True)
    return [(told if name in keepers else f"{told} (none)", look) for name, (told, look) in named]
