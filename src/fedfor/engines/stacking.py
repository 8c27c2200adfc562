from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import require_choice, require_whole

Precision = Literal["fp32", "tf32", "bf16"]
"""What convolutions and products are computed in. The weights themselves are never rounded."""

Compile = Literal["auto", "always", "never"]
""""auto": where a run on a GPU is long enough to earn back the time that compiling takes."""


@dataclass(frozen=True)
class Stacking:
    """How the vector engine trains a stack of clients."""

    precision: Precision = "fp32"
    lanes: int | None = None
    """The most clients at once; None: as many as fit."""
    compile: Compile = "auto"
    rounds: int = 1
    """How many the run has: what compiling must be earned back in."""

    def __post_init__(self) -> None:
        require_choice("engine", "precision", self.precision, get_args(Precision))
        require_choice("engine", "compile", self.compile, get_args(Compile))
        if self.lanes is not None:
            require_whole("engine", "lanes", self.lanes)


DEFAULT = Stacking()
