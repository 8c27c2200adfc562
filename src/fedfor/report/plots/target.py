"""Rounds to a target accuracy, a mark for each run; those that never got there are at the edge."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..loading import LoadedRun
from ..methods import Method, rounds_to
from ..palette import COLOURS
from ..sound import number
from .asked import Asked
from .frame import Frame, Panel, framed
from .lines import whole_rounds, write_plainly
from .missing import UNTESTED, told_by
from .rows import Rows
from .style import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REACHED: dict[str, Any] = {"marker": "o", "ls": "", "mfc": "white", "ms": 3.6, "mew": 1.0}
NEVER: dict[str, Any] = {"marker": "x", "ls": "", "ms": 3.6, "mew": 1.0}
MEAN: dict[str, Any] = {"marker": "|", "ls": "", "color": "black", "ms": 9.0, "mew": 1.4}


def draw_rounds_to_target(asked: Asked) -> "Figure":
    methods = told_by(asked.methods, lambda r: number(r, "accuracy"), "its accuracy", UNTESTED)
    target = _target(asked, methods)
    rows = Rows({m.label: m.label for m in methods}, asked.width, least=0.3)

    def panel(of_point: Sequence[Method]) -> Panel:
        def draw(axes: "Axes") -> None:
            last = max(run.planned for method in of_point for run in method.runs)
            edge = last * (1.35 if asked.log_x else 1.07)
            for method in of_point:
                _draw_method(axes, method, target, rows.order[method.label], asked, edge)
            axes.axvline(last * (1.15 if asked.log_x else 1.035), color=FAINT, lw=0.6, ls=":")
            rows.draw(axes)
            if asked.log_x:
                axes.set_xscale("log")
                write_plainly(axes.xaxis)
            else:
                axes.set_xlim(left=0)
                whole_rounds(axes)

        return Panel(draw, of_point[0].point)

    legend = [
        ("a run", {**REACHED, "color": "0.3"}),
        ("mean", MEAN),
        ("never", {**NEVER, "color": "0.3"}),
    ]
    panels = [panel(of_point) for of_point in Asked(methods).by_point.values()]
    frame = Frame(
        f"rounds to {100 * target:g} % test accuracy",
        legend=legend,
        narrowest=rows.narrowest(asked.width),
        row_height=rows.height,
    )
    return framed(asked, panels, frame)


def _target(asked: Asked, methods: Sequence[Method]) -> float:
    if asked.target is not None:
        if not 0 < asked.target <= 1:
            raise ConfigError(
                f"--target {asked.target:g}: it is a fraction above 0, at most 1, such as 0.8"
            )
        return asked.target
    own = sorted({run.target for m in methods for run in m.runs if run.target is not None})
    if len(own) == 1:
        return own[0]
    what = f"these runs have the targets {', '.join(f'{t:g}' for t in own)}"
    raise ConfigError(
        f"{what if own else 'these runs have no target of their own'}; say which with --target, "
        "such as --target 0.8"
    )


def _draw_method(
    axes: "Axes", method: Method, target: float, row: int, asked: Asked, edge: float
) -> None:
    """Each run on a line of its own, so that none hides another; words above them."""
    spread = rounds_to(method, target)
    colour = COLOURS[asked.place(method) % len(COLOURS)]
    count = len(method.runs)
    for place, reached in enumerate(spread.values):
        at = row + 0.12 + 0.4 * ((place + 0.5) / count - 0.5)
        look = NEVER if reached is None else REACHED
        where = edge if reached is None else reached
        axes.plot([where], [at], label=method.label, color=colour, **look)
    if spread.mean is not None and count > 1:
        axes.plot([spread.mean], [row + 0.12], label="mean", **MEAN)
    if words := never_words(method.runs, spread.values):
        axes.annotate(
            words, (1, row - 0.2), xycoords=("axes fraction", "data"), ha="right", va="center",
            fontsize=6,
        )  # fmt: skip


def never_words(runs: Sequence[LoadedRun], values: Sequence[float | None]) -> str:
    """Of the runs that never got there, how they ended."""
    lacking = [run.state for run, value in zip(runs, values, strict=True) if value is None]
    words = {"done": "never", "diverged": "diverged", "unfinished": "not yet"}
    told = [(lacking.count(state), word) for state, word in words.items() if state in lacking]
    if len(told) == 1 and len(lacking) == len(runs):
        return told[0][1]
    many = [f"{count} {word}" for count, word in told]
    return ", ".join([f"{told[0][0]} of {len(runs)} {told[0][1]}", *many[1:]]) if told else ""
