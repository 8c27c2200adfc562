"""Many clients, and many runs, in one stack of models."""

from .engine import VectorEngine
from .trainer import Task, Trainer

__all__ = ["Task", "Trainer", "VectorEngine"]
