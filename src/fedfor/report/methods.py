"""Runs that differ in their seed alone are one method; every figure is a mean over its runs."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..experiments.comparison import Summaries
from ..experiments.metrics import Spread
from ..experiments.simulation import Record
from ..paper.numbers import Reported
from .loading import LoadedRun
from .presets import HOW, fingerprint

Value = Callable[[Record], float | None]

NAMED = 3
"""Settings that a name may tell apart by; where more differ, the folder's name does."""


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


def number(record: Mapping[str, Any], key: str) -> float | None:
    """What a record says under this key, if it is a finite number."""
    value = record.get(key)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def of_key(key: str, scale: float = 1.0) -> Value:
    def value(record: Record) -> float | None:
        found = number(record, key)
        return None if found is None else scale * found

    return value


def methods_of(runs: Sequence[LoadedRun]) -> list[Method]:
    """The methods of all points, each point's in the order in which its runs were found."""
    groups: dict[tuple[str, str, str], list[LoadedRun]] = {}
    for run in runs:
        groups.setdefault((run.point, run.label, _identity(run)), []).append(run)
    named: dict[tuple[str, str], list[list[LoadedRun]]] = {}
    for (point, label, _), of_group in groups.items():
        named.setdefault((point, label), []).append(of_group)
    found = [
        Method(name, point, of_group)
        for (point, label), alike in named.items()
        for name, of_group in zip(_apart(label, alike), alike, strict=True)
    ]
    points = list(dict.fromkeys(method.point for method in found))
    return sorted(found, key=lambda method: points.index(method.point))


def labels(methods: Sequence[Method]) -> list[str]:
    """The names of the methods of all points, each once."""
    return list(dict.fromkeys(method.label for method in methods))


def _identity(run: LoadedRun) -> str:
    return str(run.path) if not run.config and not run.only_curve else _fingerprint(run)


def _fingerprint(run: LoadedRun) -> str:
    return "" if run.only_curve else fingerprint(run.config)


def _apart(label: str, alike: Sequence[Sequence[LoadedRun]]) -> Iterator[str]:
    """Names for groups of runs that have one label and other settings."""
    if len(alike) == 1:
        yield label
        return
    tables = [flat(group[0].config) for group in alike]
    keys = differing(tables)
    for group, table in zip(alike, tables, strict=True):
        run = group[0]
        if any(r.on_flower != run.on_flower for g in alike for r in g):
            yield f"{label} ({'Flower' if run.on_flower else 'simulated'})"
        elif 0 < len(keys) <= NAMED:
            told = [f"{key.rpartition('.')[2]}={table.get(key, 'none')}" for key in keys]
            yield ", ".join([label, *told])
        else:
            yield f"{label} ({run.path.name})"


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their full names, without those that only say how a run was run."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if prefix or key not in HOW:
            name = f"{prefix}{key}"
            found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that are not the same in all."""
    every = dict.fromkeys(key for table in tables for key in table)
    return [key for key in every if any(t.get(key) != tables[0].get(key) for t in tables)]


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
