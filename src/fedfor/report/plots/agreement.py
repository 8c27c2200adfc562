"""How the clients' updates agree with their mean, and what FedFOR's penalty acts on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..methods import Method, of_key
from ..sound import number
from .asked import Asked
from .frame import Frame, Panel, framed
from .lines import draw_band, entries, set_scales, whole_rounds
from .missing import told_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = {"cosine": (1.0, "cosine to mean update"), "opposing": (100.0, "opposing weights, %")}


def draw_agreement(asked: Asked) -> "Figure":
    """Two panels for each point: the cosine, and the share of weights that move against it."""
    methods = told_by(
        asked.methods,
        lambda r: next((v for key in SHOWN if (v := number(r, key)) is not None), None),
        "how its clients' updates agree",
    )

    def panel(of_point: Sequence[Method], key: str) -> Panel:
        scale, title = SHOWN[key]

        def draw(axes: "Axes") -> None:
            for method in of_point:
                band = method.band(of_key(key, scale))
                if band.at:
                    draw_band(axes, band, method.label, asked.place(method))
            whole_rounds(axes)
            set_scales(axes, asked)

        point = of_point[0].point
        return Panel(draw, f"{point}: {title}" if point else title)

    points = Asked(methods).by_point.values()
    panels = [panel(of_point, key) for of_point in points for key in SHOWN]
    frame = Frame("round", legend=entries(asked, methods), share_y=False)
    return framed(asked, panels, frame)
