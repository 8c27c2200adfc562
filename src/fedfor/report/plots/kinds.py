"""The figures that can be asked for, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .agreement import draw_agreement
from .asked import Asked
from .cohort import draw_cohort
from .curves import draw_learning_curves
from .parts import draw_parts
from .target import draw_rounds_to_target
from .traffic import draw_bytes, draw_state

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDS = "lines are means over seeds, bands one deviation"
MARKS = "a circle is a run, a bar the mean where all got there"


@dataclass(frozen=True)
class Kind:
    draw: Callable[[Asked], "Figure"]
    takes: frozenset[str]
    """Of the options that are not for every figure."""
    caption: str
    """What a reader must be told below it."""


def _kind(draw: Callable[[Asked], "Figure"], takes: str, caption: str) -> Kind:
    return Kind(draw, frozenset(takes.split()), caption)


KINDS = {
    "curves": _kind(draw_learning_curves, "metric x best log-x log-y", BANDS),
    "target": _kind(
        draw_rounds_to_target,
        "target log-x",
        "a circle is a run, a bar the mean where all got there",
    ),
    "bytes": _kind(draw_bytes, "", "all rounds and clients together, means over seeds"),
    "state": _kind(draw_state, "log-x log-y", f"all clients together; {BANDS}"),
    "parts": _kind(draw_parts, "parts log-x log-y", BANDS),
    "cohort": _kind(draw_cohort, "", "samples of each class that the clients of round 1 have"),
    "agreement": _kind(draw_agreement, "log-x", BANDS),
}
