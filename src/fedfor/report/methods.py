"""Runs that differ in their seed alone are one method; every figure is a mean over its runs."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..experiments.comparison import Summaries
from ..experiments.metrics import Spread
from ..experiments.simulation import Record
from ..paper.numbers import Reported
from .loading import LoadedRun
from .naming import apart
from .presets import fingerprint
from .sound import number

Value = Callable[[Record], float | None]


@dataclass(frozen=True)
class Band:
    """A curve: at each place, over the runs that got as far, the mean and the deviation."""

    at: list[float]
    means: list[float]
    deviations: list[float]
    runs: list[int]
    """How many there are at each place."""


class Method(Summaries):
    """The runs of one method, at one point of a study."""

    def __init__(self, label: str, point: str, runs: Sequence[LoadedRun]) -> None:
        ended = [run.summary for run in runs if run.summary is not None]
        super().__init__(label, ended, len(runs))
        self.point, self.runs = point, list(runs)

    def band(self, value: Value) -> Band:
        """By round. A run that diverged counts up to where it did."""
        at: dict[int, list[float]] = {}
        for run in self.runs:
            for record in run.records:
                if (number := value(record)) is not None:
                    at.setdefault(record["round"], []).append(number)
        rounds = sorted(at)
        return Band(
            [float(t) for t in rounds],
            [statistics.fmean(at[t]) for t in rounds],
            [statistics.stdev(at[t]) if len(at[t]) > 1 else 0.0 for t in rounds],
            [len(at[t]) for t in rounds],
        )

    def reported(self, metric: str) -> Reported | None:
        """The paper's number, if all runs repeat the same experiment of it."""
        found = {run.reported(metric) for run in self.runs}
        return found.pop() if len(found) == 1 else None


def of_key(key: str, scale: float = 1.0) -> Value:
    def value(record: Record) -> float | None:
        found = number(record, key)
        return None if found is None else scale * found

    return value


def methods_of(runs: Sequence[LoadedRun]) -> list[Method]:
    """The methods of all points, each point's in the order in which its runs were found."""
    groups: dict[tuple[str, str, str, int], list[LoadedRun]] = {}
    for run in runs:
        # A seed that is there already is no other seed of the method, but another method.
        key, again = (run.point, run.label, _identity(run)), 0
        while any(other.seed == run.seed for other in groups.get((*key, again), ())):
            again += 1
        groups.setdefault((*key, again), []).append(run)
    named: dict[tuple[str, str], list[list[LoadedRun]]] = {}
    for (point, label, *_), of_group in groups.items():
        named.setdefault((point, label), []).append(of_group)
    found = [
        Method(name, point, of_group)
        for (point, label), alike in named.items()
        for name, of_group in zip(apart(label, alike), alike, strict=True)
    ]
    points = list(dict.fromkeys(method.point for method in found))
    return sorted(found, key=lambda method: points.index(method.point))


def labels(methods: Sequence[Method]) -> list[str]:
    """The names of the methods of all points, each once."""
    return list(dict.fromkeys(method.label for method in methods))


def _identity(run: LoadedRun) -> str:
    return fingerprint(run.config) if run.config else str(run.path)


def rounds_to(method: Method, target: float) -> Spread:
    """One value a run; None for one that never got there."""
    return Spread(
        tuple(
            next(
                (r["round"] for r in run.records if (number(r, "accuracy") or 0.0) >= target), None
            )
            for run in method.runs
        )
    )
