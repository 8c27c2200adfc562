"""Runs in TensorBoard, Weights & Biases and MLflow, or in a tracker of one's own."""

from .api import follow, follow_planned, track
from .names import known_trackers
from .protocol import Round, Run, Tracker
from .tracking import Tracking

__all__ = [
    "Round",
    "Run",
    "Tracker",
    "Tracking",
    "follow",
    "follow_planned",
    "known_trackers",
    "track",
]
