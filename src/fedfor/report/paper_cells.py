"""The cells of a table: our mean and deviation, the paper's, and how far apart they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import ConfigError, nearest
from ..experiments.metrics import ACCURACIES, METRICS, Spread, late_after
from ..paper.numbers import Reported, reported
from ..paper.results import Results

PER_CENT = (*ACCURACIES, "unrecovered")
UNITS = {
    "down_cross_device": ("MiB down", 2**20),
    "down_cross_silo": ("MiB down, silo", 2**20),
    "up": ("MiB up", 2**20),
    "state_bytes": ("MiB kept", 2**20),
    "local_steps": ("local steps", 1),
    "seconds": ("device s", 1),
}


@dataclass(frozen=True)
class Column:
    point: str
    metric: str
    title: str


@dataclass(frozen=True)
class Value:
    """A mean over seeds. Without one, `words` say why: it diverged, or never got there."""

    mean: float | None
    deviation: float | None = None
    words: str = ""
    seeds: int | None = None
    """How many there were, where others have more."""


@dataclass(frozen=True)
class TableCell:
    ours: Value
    paper: Value | None = None
    apart: float | None = None
    """Ours less the paper's, in units of their joint deviation."""
    winner: bool = False


def columns(results: Results, metrics: Sequence[str]) -> list[Column]:
    if not results.cells:
        raise ConfigError("there is no run in these results yet; 'fedfor reproduce' makes some")
    for metric in metrics:
        if metric not in METRICS:
            raise ConfigError(f"--metrics {metric}: it must be one of {', '.join(METRICS)}")
        if not any(metric in o.metrics for o in results.cells):
            raise ConfigError(f"--metrics {metric}: no run has it")
    return [
        Column(point, metric, _title(results, point, metric))
        for point in results.points
        for metric in metrics
        if any(metric in o.metrics for o in results.cells if o.point == point)
    ]


def _title(results: Results, point: str, metric: str) -> str:
    one = next(o for o in results.cells if o.point == point)
    target = results.study.config.get("evaluation", {}).get("target")
    what = {
        "best_half": f"t={one.half}",
        "best": f"t={one.rounds}",
        "late": f"t>{late_after(one.rounds)}",
        "final": f"at {one.rounds}",
        "mean_over_rounds": "mean",
        "rounds_to_target": f"to {100 * target:g} %" if target else "to target",
        "recovery": "rounds to recover",
        "unrecovered": "not recovered, %",
    }
    return f"{point}, {what.get(metric) or UNITS[metric][0]}"


def cells(
    results: Results,
    shown: Sequence[Column],
    against_paper: bool,
    gain_over: str | None,
) -> dict[str, list[TableCell]]:
    """For each row, its cells."""
    if gain_over is not None:
        named = {row.lower(): row for row in results.rows}
        if gain_over.lower() not in named:
            hint = nearest(gain_over, results.rows, otherwise="the rows are")
            raise ConfigError(f"--gain-over {gain_over}: {hint}")
        gain_over = named[gain_over.lower()]
    rows = [row for row in results.rows if row != gain_over]
    table = {row: [_cell(results, row, c, against_paper, gain_over) for c in shown] for row in rows}
    for place, column in enumerate(shown):
        means = [m for row in rows if (m := _rounded(table[row][place], column)) is not None]
        if gain_over is not None:
            means.append(0.0)  # a row that is behind the one that is left out has not won
        best = (max if column.metric in ACCURACIES else min)(means, default=None)
        for row in rows:
            cell = table[row][place]
            wins = best is not None and _rounded(cell, column) == best and len(rows) > 1
            wins &= column.metric != "local_steps"  # no contest
            table[row][place] = TableCell(cell.ours, cell.paper, cell.apart, wins)
    return table


def _rounded(cell: TableCell, column: Column) -> float | None:
    """As printed: what looks equal shares the win."""
    digits = 2 if column.metric in UNITS else 1
    return None if cell.ours.mean is None else round(cell.ours.mean, digits)


def _cell(
    results: Results,
    row: str,
    column: Column,
    against_paper: bool,
    gain_over: str | None,
) -> TableCell:
    ours = _ours(results, row, column)
    paper = _papers(results, row, column) if against_paper else None
    if gain_over is not None:
        ours = _our_gain(results, row, column, gain_over)
        if paper is not None:
            base = _papers(results, gain_over, column)
            paper = None if base is None else _gain(paper, base)
    return TableCell(ours, paper, _apart(ours, paper))


def _ours(results: Results, row: str, column: Column) -> Value:
    outcomes = results.of(column.point, row)
    spread = results.spread(column.point, row, column.metric)
    if not outcomes or not spread.values:
        return Value(None, words="-")
    if diverged := sum(o.diverged for o in outcomes):
        return Value(None, words=f"{diverged} of {len(outcomes)} diverged")
    if spread.mean is None:
        missing = len(spread.values) - len(spread.reached)
        return Value(None, words=f"{missing} of {len(spread.values)} never")
    return _marked(_scaled(spread, column.metric), len(spread.values), results)


def _our_gain(results: Results, row: str, column: Column, base: str) -> Value:
    """Over the seeds that both have; its deviation is that of the gain of one seed."""
    for one in (row, base):
        value = _ours(results, one, column)
        if value.mean is None:
            return value
    mine, theirs = (
        {o.seed: o.metrics.get(column.metric) for o in results.of(column.point, one)}
        for one in (row, base)
    )
    gains = [
        a - b for seed, a in mine.items() if a is not None and (b := theirs.get(seed)) is not None
    ]
    if not gains:
        return Value(None, words="no seed in common")
    return _marked(_scaled(Spread(tuple(gains)), column.metric), len(gains), results)


def _marked(value: Value, seeds: int, results: Results) -> Value:
    """With the number of seeds, where others have more."""
    most = max(len(results.of(point, row)) for point in results.points for row in results.rows)
    return replace(value, seeds=seeds if seeds < most else None)


def _scaled(spread: Spread, metric: str) -> Value:
    scale = 100.0 if metric in PER_CENT else 1 / UNITS.get(metric, ("", 1))[1]
    assert spread.mean is not None
    deviation = None if spread.deviation is None else scale * spread.deviation
    return Value(scale * spread.mean, deviation)


def _papers(results: Results, row: str, column: Column) -> Value | None:
    study = results.study
    name = next((r.paper for r in study.rows if r.name == row), None)
    one = next(o for o in results.cells if o.point == column.point)
    if study.table is None or name is None:
        return None
    up_to = one.half if column.metric == "best_half" else one.rounds
    found: Reported | None = reported(study.table, name, one.epochs, column.metric, up_to)
    return None if found is None else Value(found.mean, found.deviation)


def _gain(value: Value, base: Value) -> Value:
    if value.mean is None or base.mean is None:
        return Value(None, words=value.words or base.words)
    return Value(value.mean - base.mean, _joint(value.deviation, base.deviation))


def _joint(*deviations: float | None) -> float | None:
    known = [d for d in deviations if d is not None]
    return math.hypot(*known) if len(known) == len(deviations) else None


def _apart(ours: Value, paper: Value | None) -> float | None:
    if paper is None or ours.mean is None or paper.mean is None:
        return None
    joint = _joint(ours.deviation, paper.deviation)
    return (ours.mean - paper.mean) / joint if joint else None
