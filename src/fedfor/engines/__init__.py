"""Where clients are trained."""

from .engine import Engine, Exam, Job, Result, Score, StackedResult
from .fisher import fisher_diagonal
from .serial import SerialEngine
from .training import Training

__all__ = [
    "Engine",
    "Exam",
    "Job",
    "Result",
    "Score",
    "SerialEngine",
    "StackedResult",
    "Training",
    "fisher_diagonal",
]
