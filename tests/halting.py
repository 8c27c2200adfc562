"""Models that halt where a test wants it, so that a run is surely in the middle of a round.

Their processes are told by $FEDFOR_TEST_HALT: a number of forward passes, and a file. After so
many the file is there, with the process's number at its end, and training stands still until
there is one that ends with `go`.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn

from fedfor.models import build_model

VARIABLE = "FEDFOR_TEST_HALT"


class Halting(nn.Module):
    passes: ClassVar[int] = 0
    """Of all models in this process."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        Halting.passes += 1
        if told := os.environ.get(VARIABLE):
            passes, _, file = told.partition(":")
            if Halting.passes == int(passes):
                Path(f"{file}.{os.getpid()}").touch()
                while not Path(f"{file}.go").exists():
                    time.sleep(0.02)
        result: Tensor = self.inner(x)
        return result


def halting_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    return Halting(build_model("cnn-bn", shape, classes))


def halting_linear(shape: Sequence[int], classes: int) -> nn.Module:
    return Halting(build_model("linear", shape, classes))


def after(passes: float, file: Path) -> dict[str, str]:
    """What a process is to be told, in its environment."""
    return {VARIABLE: f"{round(passes)}:{file}"}


def halted(file: Path) -> list[Path]:
    """One for each process that stands still."""
    return [path for path in file.parent.glob(f"{file.name}.*") if path.suffix != ".go"]
