"""The classes of the clients of a round: what non-IID means, at a glance."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..methods import Method
from ..page_clients import cohort_of
from .asked import Asked
from .frame import Frame, Panel, framed, grid
from .missing import nothing
from .style import SMALL
from .text import fitted, inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROWEST = 2.2
ROW = 0.15
"""Inches that the name of a client or class needs."""
HIGHEST = 3.5
"""Inches of a panel; of more clients, only some are named."""
TINY = 6.0
DARK = 0.55
"""Share of the most samples from which on a number is written in white."""

Cohort = Mapping[str, Any]


def draw_cohort(asked: Asked) -> "Figure":
    """A row for each client of the first round, a column for each class, darker for more."""
    cohorts = {point: _first(methods) for point, methods in asked.by_point.items()}
    found = {point: cohort for point, cohort in cohorts.items() if cohort is not None}
    if not found:
        raise ConfigError(nothing(asked.methods, "the classes of its clients"))
    if left := [point for point in cohorts if point not in found]:
        warnings.warn(f"no run at {', '.join(left)} tells its clients' classes", stacklevel=2)
    most = max(len(cohort["clients"]) for cohort in found.values())
    height = min(HIGHEST, max(0.8, ROW * most))
    _, columns = grid(len(found), asked.width, NARROWEST)

    def panel(point: str, cohort: Cohort) -> Panel:
        def draw(axes: "Axes") -> None:
            _draw_counts(axes, cohort, 0.75 * asked.width / columns, asked.height or height)

        return Panel(draw, point)

    panels = [panel(point, cohort) for point, cohort in found.items()]
    some = [c for c in found.values() if c["of"] > len(c["clients"])]
    y_label = f"client, {len(some[0]['clients'])} of {some[0]['of']}" if some else "client"
    frame = Frame("class", y_label, narrowest=NARROWEST, row_height=height, share_y=False)
    return framed(asked, panels, frame)


def _first(methods: Sequence[Method]) -> Cohort | None:
    """Methods with one seed call the same clients, so the first run that tells is enough."""
    runs = [run for method in methods for run in method.runs]
    return next((cohort for run in runs if (cohort := cohort_of(run)) is not None), None)


def _draw_counts(axes: "Axes", cohort: Cohort, width: float, height: float) -> None:
    clients = cohort["clients"]
    classes = max(len(client["counts"]) for client in clients)
    counts = [client["counts"] + [0] * (classes - len(client["counts"])) for client in clients]
    most = max(1, *(n for of in counts for n in of))
    image = axes.imshow(
        counts, cmap="Blues", vmin=0, vmax=most, aspect="auto", interpolation="nearest"
    )
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    cell = width / classes
    if len(clients) * ROW <= height and inches(str(most), TINY) + 0.04 <= cell:
        for row, of in enumerate(counts):
            for column, n in enumerate(of):
                colour = "white" if n > DARK * most else "black"
                if n:
                    axes.text(
                        column, row, str(n), ha="center", va="center", size=TINY, color=colour
                    )
    else:
        axes.figure.colorbar(image, ax=axes, label="samples", aspect=30, pad=0.02)
    _name_classes(axes, classes, cohort["class_names"], cell)
    step = -(-len(clients) // max(1, int(height / ROW)))
    names = [_client(client, 0.3 * width) for client in clients]
    axes.set_yticks(range(0, len(clients), step), names[::step])


def _name_classes(axes: "Axes", count: int, told: Sequence[str], cell: float) -> None:
    names = [fitted(told[c] if c < len(told) else str(c), 0.8, SMALL, 1) for c in range(count)]
    upright = max(inches(name, SMALL) for name in names) + 0.04 <= cell
    needed = ROW if not upright else max(inches(name, SMALL) for name in names) + 0.04
    step = max(1, int(-(-needed // cell)))
    turned: dict[str, Any] = {} if upright or max(map(len, names)) <= 3 else {"rotation": 90}
    axes.set_xticks(range(0, count, step), names[::step], **turned)


def _client(client: Mapping[str, Any], width: float) -> str:
    return fitted(" ".join([client["client"], client.get("domain", "")]), width, SMALL, 1)
