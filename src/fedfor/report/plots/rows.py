"""Figures with a row for each method, whose names stand at the left."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .style import SMALL
from .text import all_fitted, inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARE = 0.38
"""Of the width, for names at most."""
LINE_HEIGHT = 0.125
"""Inches."""


class Rows:
    """The rows of all panels: a name for each, and the room that they need."""

    def __init__(self, names: Mapping[str, str], width: float, least: float) -> None:
        """`names` has what is shown for each label."""
        self.order = {label: place for place, label in enumerate(names)}
        self.names = all_fitted(list(names.values()), SHARE * width, SMALL, 3)
        lines = [line for name in self.names for line in name.split("\n")]
        self.names_width = max(inches(line, SMALL) for line in lines)
        most = max(name.count("\n") + 1 for name in self.names)
        self.row_height = max(least, LINE_HEIGHT * most + 0.05)

    @property
    def height(self) -> float:
        return max(0.7, len(self.order) * self.row_height + 0.1)

    def narrowest(self, width: float, least: float = 1.05) -> float:
        """What a panel needs, if names stand at the first of a line of panels alone."""
        beside = max(1, int((width - self.names_width - 0.2) / least))
        return width / beside

    def draw(self, axes: "Axes") -> None:
        axes.set_yticks(range(len(self.names)), self.names)
        axes.set_ylim(len(self.names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
