"""Learning curves, by round or by what was sent until then."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, nearest
from ..loading import LoadedRun
from ..methods import Band, Method, Value, of_key
from ..palette import COLOURS
from ..sound import number
from .asked import Asked
from .frame import Frame, Panel, framed
from .lines import Entries, draw_band, entries, set_scales, whole_rounds, with_records
from .missing import NEWER, UNTESTED, told_by
from .style import FAINT, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {
    "accuracy": (100.0, "test accuracy, %"),
    "loss": (1.0, "test loss"),
    "train_loss": (1.0, "training loss"),
    "disagreement": (1.0, "disagreement of clients"),
}
TESTED = ("accuracy", "loss")

SENT = {
    "bytes": (("down_cross_device", "up"), "down and up"),
    "silo-bytes": (("down_cross_silo", "up"), "down and up, silo"),
    "down": (("down_cross_device",), "down"),
    "silo-down": (("down_cross_silo",), "down, silo"),
    "up": (("up",), "up"),
}
"""What --x can be beside the round: bytes of all rounds so far."""

MOST_SHIFTS = 60

CROSS = {"marker": "x", "ls": "", "color": "0.3", "ms": 4.5, "mew": 1.2}
TOTAL = "sent so far"


def draw_learning_curves(asked: Asked) -> "Figure":
    scale, y_label = _metric(asked)
    if asked.x != "round" and asked.x not in SENT:
        raise ConfigError(f"--x {asked.x}: there is no such axis; {nearest(asked.x, X_AXES)}")
    if asked.best:
        y_label = "best test accuracy so far, %"
    what, otherwise = f"its {asked.metric}", UNTESTED if asked.metric in TESTED else NEWER
    methods = told_by(asked.methods, lambda r: number(r, asked.metric), what, otherwise)
    x_label, divisor = "round", 1.0
    if asked.x in SENT:
        keys, which = SENT[asked.x]
        methods = [
            sent_so_far(m, keys)
            for m in told_by(methods, lambda r: number(r, keys[0]), "its bytes by round")
        ]
        most = max(number(r, TOTAL) or 0.0 for m in methods for run in m.runs for r in run.records)
        name, divisor = unit(most)
        x_label = f"{name} {which}"
    chosen = [best_so_far(m) if asked.best else m for m in methods]
    value = of_key(asked.metric, scale)

    def panel(of_point: Sequence[Method]) -> Panel:
        def draw(axes: "Axes") -> None:
            for method in of_point:
                band, at = _along(method, value, divisor if asked.x in SENT else None)
                draw_band(axes, band, method.label, asked.place(method), at=at)
            if asked.x == "round":
                draw_shifts(axes, of_point)
                whole_rounds(axes)
            if asked.metric == "accuracy":
                _draw_target(axes, of_point)
            if with_paper:
                for method in of_point:
                    draw_paper(axes, method, asked.place(method), ms=4.5, mew=1.2)
            set_scales(axes, asked)

        return Panel(draw, of_point[0].point)

    with_paper = asked.metric == "accuracy" and asked.x == "round" and any(map(_has_paper, chosen))
    legend = entries(asked, chosen) + _more_entries(asked, chosen, with_paper)
    panels = [panel(of_point) for of_point in Asked(chosen).by_point.values()]
    return framed(asked, panels, Frame(x_label, y_label, legend))


X_AXES = ("round", *SENT)


def _metric(asked: Asked) -> tuple[float, str]:
    if asked.metric not in METRICS:
        hint = nearest(asked.metric, METRICS)
        raise ConfigError(f"--metric {asked.metric}: there is no such curve; {hint}")
    if asked.best and asked.metric != "accuracy":
        raise ConfigError("--best is of the accuracy; leave it or --metric out")
    return METRICS[asked.metric]


def best_so_far(method: Method) -> Method:
    """As the paper counts: a round is as good as the best one until then."""

    def change(run: LoadedRun) -> list[dict[str, object]]:
        best, records = 0.0, []
        for record in run.records:
            if (accuracy := number(record, "accuracy")) is not None:
                best = max(best, accuracy)
                record = {**record, "accuracy": best}
            records.append(record)
        return records

    return with_records(method, change)


def sent_so_far(method: Method, keys: Sequence[str]) -> Method:
    """With the sum until then in each record, up to the first that does not tell."""

    def change(run: LoadedRun) -> list[dict[str, object]]:
        total: float | None = 0.0
        records = []
        for record in run.records:
            told = [number(record, key) for key in keys]
            whole = [value for value in told if value is not None]
            total = total + sum(whole) if total is not None and len(whole) == len(keys) else None
            records.append({**record, TOTAL: total})
        return records

    return with_records(method, change)


def _along(method: Method, value: Value, divisor: float | None) -> tuple[Band, list[float] | None]:
    """By round; or at each round's mean of what was sent, of the runs that count there."""
    if divisor is None:
        return method.band(value), None
    sent = of_key(TOTAL, 1 / divisor)
    band = method.band(lambda r: value(r) if sent(r) is not None else None)
    return band, method.band(lambda r: sent(r) if value(r) is not None else None).means


def draw_shifts(axes: "Axes", methods: Sequence[Method]) -> None:
    """Where a concept shifted."""
    records = (r for method in methods for run in method.runs for r in run.records)
    shifts = {r["round"] for r in records if "shift" in r}
    for t in shifts if len(shifts) <= MOST_SHIFTS else ():
        axes.axvline(t, color="0.8", lw=0.5, zorder=0)


def draw_paper(axes: "Axes", method: Method, place: int, **look: Any) -> None:
    """Crosses for what the paper reports."""
    for t, accuracy in _papers(method):
        axes.plot([t], [accuracy], "x", color=COLOURS[place % len(COLOURS)], **look)


def _papers(method: Method) -> Iterator[tuple[int, float]]:
    run = method.runs[0]
    for metric, at in (("best_half", run.half), ("best", run.planned)):
        if (found := method.reported(metric)) is not None:
            yield at, found.mean


def _has_paper(method: Method) -> bool:
    return any(True for _ in _papers(method))


def _targets(methods: Sequence[Method]) -> set[float]:
    return {run.target for m in methods for run in m.runs if run.target is not None}


def _draw_target(axes: "Axes", methods: Sequence[Method]) -> None:
    for target in _targets(methods):
        axes.axhline(100 * target, color=FAINT, lw=0.8, ls=":", zorder=0)


def _more_entries(asked: Asked, methods: Sequence[Method], with_paper: bool) -> Entries:
    found: Entries = []
    if with_paper:
        found.append(("paper, best so far", CROSS))
    if asked.metric == "accuracy" and (targets := sorted(_targets(methods))):
        told = ", ".join(f"{100 * target:g}" for target in targets)
        found.append((f"target, {told} %", {"color": FAINT, "lw": 0.8, "ls": ":"}))
    return found
