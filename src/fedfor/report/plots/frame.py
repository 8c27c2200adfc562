"""A figure of panels with one legend below them, which has a place of its own."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from .asked import Asked
from .style import SMALL, TEXT, styled
from .text import all_fitted, fitted, inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROWEST = 1.5
"""Inches that a panel of lines needs."""
LEAST = 0.4
"""Inches of a side of a panel below which nothing can be read off."""
LINE_HEIGHT = 0.16
"""Inches of a line of a title."""
ROOMY = 1.5
"""Inches more than needed, to begin with."""
HANDLE = 0.4
"""Inches that a line in the legend takes with the space around it."""

Style = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    draw: Callable[["Axes"], None]
    title: str = ""


@dataclass(frozen=True)
class Frame:
    """What is around the panels."""

    x_label: str
    y_label: str = ""
    legend: Sequence[tuple[str, Style]] = ()
    """Names, and how the line or mark beside them looks."""
    narrowest: float = NARROWEST
    row_height: float | None = None
    """Of a row of panels in inches. Else in proportion to the width."""
    share_y: bool = True


def framed(asked: Asked, panels: Sequence[Panel], frame: Frame) -> "Figure":
    """The figure, as high as what is in it needs if it was not told how high to be."""
    with styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        rows, columns = grid(len(panels), asked.width, frame.narrowest)
        layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03)
        figure = Figure(figsize=(asked.width, 4), layout=layout)
        FigureCanvasAgg(figure)
        made = figure.subplots(rows, columns, squeeze=False, sharey=frame.share_y)
        all_axes: list[Axes] = made.flatten().tolist()
        titles = [fitted(p.title, 0.8 * asked.width / columns, TEXT, 2) for p in panels]
        for place, (axes, panel) in enumerate(zip(all_axes, panels, strict=False)):
            panel.draw(axes)
            if titles[place]:
                axes.set_title(titles[place])
            if place + columns >= len(panels):  # nothing is below it
                axes.set_xlabel(frame.x_label)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        if frame.y_label and len(panels) == 1:
            all_axes[0].set_ylabel(frame.y_label)
        elif frame.y_label:
            figure.supylabel(frame.y_label)
        title = fitted(asked.title, 0.9 * asked.width, TEXT + 1, 4) if asked.title else ""
        if title:
            figure.suptitle(title)
        each = frame.row_height or _proportion(asked.width / columns, len(panels))
        below = _add_legend(figure, frame.legend, asked.width)
        text = LINE_HEIGHT * (_lines_in(title) + rows * max(map(_lines_in, titles)))
        figure.set_figheight(asked.height or rows * each + below + text + ROOMY)
        _lay_out(figure, all_axes[: len(panels)], asked, rows, each)
        return figure


def _lines_in(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def grid(count: int, width: float, narrowest: float) -> tuple[int, int]:
    """Rows and columns: as many beside each other as there is room for, rows of one length."""
    most = max(1, min(count, int(width / narrowest)))
    rows = -(-count // most)
    return rows, -(-count // rows)


def _proportion(width: float, panels: int) -> float:
    """The height of axes for their width."""
    return min(2.8, 0.55 * width) if panels == 1 else min(1.9, max(0.95, 0.6 * width))


def _add_legend(figure: "Figure", entries: Sequence[tuple[str, Style]], width: float) -> float:
    """In as many columns as fit; how high it is, in inches."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not entries:
        return 0.0
    names = all_fitted([name for name, _ in entries], width - HANDLE - 0.1, SMALL, 3)
    columns = legend_columns(names, width - 0.1)
    handles = [
        Patch(**style) if "hatch" in style else Line2D([], [], **style) for _, style in entries
    ]
    legend = figure.legend(
        handles,
        [" "] * len(names),  # matplotlib leaves out names that start with an underscore
        loc="outside lower center",
        ncols=columns,
        handlelength=2.2,
        handletextpad=0.5,
        columnspacing=1.0,
        labelspacing=0.3,
        borderaxespad=0.2,
        borderpad=0.1,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    return float(legend.get_window_extent(renderer).height) / figure.dpi


def legend_columns(names: Sequence[str], width: float) -> int:
    """The most that fit beside each other, filled one after the other."""
    wide = [max(inches(line, SMALL) for line in name.split("\n")) + HANDLE for name in names]
    for columns in range(len(wide), 1, -1):
        longer, rest = len(wide) % columns, len(wide) // columns
        starts = [place * rest + min(place, longer) for place in range(columns + 1)]
        if sum(max(wide[a:b]) for a, b in itertools.pairwise(starts)) <= width:
            return columns
    return 1


def _lay_out(
    figure: "Figure", all_axes: Sequence["Axes"], asked: Asked, rows: int, each: float
) -> None:
    """Find a place for all of it, or say that there is none."""
    layout = figure.get_layout_engine()
    assert layout is not None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            layout.execute(figure)
            for axes in all_axes:
                wide, high = _sides(axes)
                axes.set_xlabel(fitted(axes.get_xlabel(), wide, TEXT, 3))
                axes.set_ylabel(fitted(axes.get_ylabel(), high, TEXT, 3))
            layout.execute(figure)
            if asked.height is None:  # now that it is known what names and numbers take
                high = min(_sides(axes)[1] for axes in all_axes)
                figure.set_figheight(figure.get_figheight() + rows * (each - high))
                layout.execute(figure)
            least = min(side for axes in all_axes for side in _sides(axes))
        except UserWarning:
            least = 0.0
    if least < LEAST:
        told = f"--width {asked.width:g}" if asked.height is None else f"--height {asked.height:g}"
        raise ConfigError(
            f"{told}: that leaves no room for what is drawn; make it larger, or choose fewer with "
            "--methods or --point"
        )


def _sides(axes: "Axes") -> tuple[float, float]:
    """Width and height in inches."""
    box, figure = axes.get_position(), axes.get_figure()
    wide, high = figure.get_size_inches()  # type: ignore[union-attr]
    return float(box.width * wide), float(box.height * high)
