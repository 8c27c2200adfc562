"""How long a round takes, and how long all that is left will take."""

import statistics
from collections.abc import Mapping, Sequence

from ..experiments.simulation import Record
from ..report.loading import LoadedRun
from .growing import Growing

RECENT = 10
"""Rounds that tell how long the next will take."""
LEAST, TIMES, UNKNOWN = 60.0, 5.0, 900.0
"""A run is quiet after so many seconds, and so many times its longest round of late; where no round
is known yet, after so many."""


def recorded(records: Sequence[Record]) -> list[float]:
    """The seconds that the last rounds took, as they say. Runs that are trained together each tell
    their share of the time that all of them took."""
    found = [r.get("seconds") for r in records[-RECENT:]]
    return [float(s) for s in found if isinstance(s, (int, float)) and s > 0]


def seen(marks: Sequence[tuple[float, int]]) -> float | None:
    """Seconds from round to round by the clock, as far as they were watched."""
    if len(marks) < 2:
        return None
    (began, first), (ended, last) = marks[0], marks[-1]
    return (ended - began) / (last - first) if ended > began and last > first else None


class Pace:
    """The speed of a run."""

    def __init__(self, growing: Growing, beside: int) -> None:
        """`beside`: how many runs are trained together with it, itself included."""
        run = growing.run
        took = recorded(run.records) if run is not None else []
        self.work = statistics.median(took) if took else None
        """Seconds of work for a round."""
        guess = None if self.work is None else self.work * beside
        self.seconds = seen(growing.marks) or guess
        """Seconds by the clock for a round."""
        slowdown = self.seconds / self.work if self.seconds and self.work else 1.0
        self.patience = max(LEAST, TIMES * max(took) * slowdown) if took else UNKNOWN

    @property
    def share(self) -> float:
        """Of the time by the clock, what its own work takes."""
        return min(1.0, self.work / self.seconds) if self.work and self.seconds else 0.0


def trained_together(run: LoadedRun) -> bool:
    return run.environment.get("engine") in ("vector", "ray")


def epochs(run: LoadedRun) -> int:
    training = run.config.get("training")
    told = training.get("epochs") if isinstance(training, Mapping) else None
    return told if isinstance(told, int) and told > 0 else 1


def left_of_all(
    unended: Sequence[tuple[LoadedRun, Pace]], going: Sequence[tuple[LoadedRun, Pace]]
) -> float | None:
    """Seconds until the last of them ends: the work that is left, by what is done of it a second.

    A run that has not begun takes what the others do, epoch for epoch.
    """
    a_round = [p.work / epochs(r) for r, p in (*unended, *going) if p.work is not None]
    at_once = sum(pace.share for _, pace in going)
    if not a_round or not at_once:
        return None
    typical = statistics.median(a_round)
    work = sum(rounds_left(r) * (p.work or typical * epochs(r)) for r, p in unended)
    longest = max((rounds_left(r) * (p.seconds or 0.0) for r, p in going), default=0.0)
    return max(work / at_once, longest)


def rounds_left(run: LoadedRun) -> int:
    return max(0, run.planned - len(run.records))
