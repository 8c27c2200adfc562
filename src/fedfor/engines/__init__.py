"""Where clients are trained."""

from .engine import Engine, Job, Result, Score
from .fisher import fisher_diagonal
from .serial import SerialEngine
from .training import Training

__all__ = ["Engine", "Job", "Result", "Score", "SerialEngine", "Training", "fisher_diagonal"]
