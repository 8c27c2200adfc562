"""The comparison table of a page: winners marked, the paper's numbers beside ours."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..experiments.comparison import Summaries
from ..experiments.metrics import Spread
from ..paper.numbers import Reported
from .methods import Method
from .table import Cell, Column, byte_columns, per_cent, rows, spread_of, whole

Json = dict[str, Any]


def seconds(spread: Spread) -> Cell:
    return Cell("-", None) if spread.mean is None else Cell(f"{spread.mean:,.1f}", None)


def table(methods: Sequence[Method], names: Sequence[str]) -> Json:
    """Rows of cells with what to sort by. Of a method no run of which has ended, figures so far,
    which cannot win."""
    shown = _columns(methods)
    ended = [method for method in methods if method.summaries]
    cells = dict(zip(ended, _contested(rows(ended, [c for _, c in shown])), strict=True))
    found = []
    for method in methods:
        of_row = cells.get(method) or _row_so_far(method, [c for _, c in shown])
        found.append(
            {
                "method": names.index(method.label),
                "note": note(method),
                "cells": [
                    _cell(cell, metric, method)
                    for cell, (metric, _) in zip(of_row, shown, strict=True)
                ],
            }
        )
    return {"columns": [{"title": c.title, "metric": m} for m, c in shown], "rows": found}


def _columns(methods: Sequence[Method]) -> list[tuple[str, Column]]:
    runs = [run for method in methods for run in method.runs]
    figures = [run.figures for run in runs]
    halves, lasts = {run.half for run in runs}, {run.planned for run in runs}
    half = f"best to {halves.pop()}, %" if len(halves) == 1 else "best half way, %"
    last = f"best to {lasts.pop()}, %" if len(lasts) == 1 else "best, %"
    targets = {run.target for run in runs if run.target is not None}
    one = len(targets) == 1  # rounds to unlike targets are not to be compared
    target = f"rounds to {100 * next(iter(targets)):g} %" if one else ""
    wanted: list[tuple[str, str, Callable[[Spread], Cell], bool]] = [
        ("best_half", half, per_cent, True),
        ("best", last, per_cent, True),
        ("late", "last tenth, %", per_cent, True),
        ("mean_over_rounds", "mean, %", per_cent, True),
        ("rounds_to_target", target, whole, False),
    ]
    if not any("recovery" in f for f in figures):  # without a shift nobody asks for it
        wanted = [w for w in wanted if w[0] != "mean_over_rounds"]
    shown = [
        (metric, Column(title, spread_of(metric, form), high))
        for metric, title, form, high in wanted
        if title and any(metric in f for f in figures)
    ]
    shown += list(
        zip(
            ("down_cross_device", "down_cross_silo", "up", "state_bytes"),
            byte_columns(),
            strict=True,
        )
    )
    return [*shown, ("seconds", Column("seconds", spread_of("seconds", seconds), False))]


def _contested(found: list[list[Cell]]) -> list[list[Cell]]:
    """Where all are alike, or there is but one, nobody has won."""
    for place in range(len(found[0]) if found else 0):
        if all(row[place].winner for row in found):
            for row in found:
                row[place] = replace(row[place], winner=False)
    return found


def so_far(method: Method) -> Summaries:
    """Of a method whose runs still go on: as if all that have begun ended now."""
    begun = [run.figures for run in method.runs if run.records]
    return Summaries(method.label, begun, len(method.runs))


def _row_so_far(method: Method, shown: Sequence[Column]) -> list[Cell]:
    found = so_far(method)
    if not found.summaries:
        return [Cell("-", None) for _ in shown]
    cells = [replace(column.cell(found), value=None) for column in shown]
    return [replace(c, text=c.text.replace("never", "not yet")) for c in cells]


def note(method: Method) -> str:
    """A word about runs that are not in the means."""
    words = []
    if method.diverged:
        words.append(f"{method.diverged} of {method.planned} diverged")
    if (left := method.planned - len(method.summaries)) > 0:
        so_far = "; so far" if left == method.planned else ""
        words.append(f"{left} of {method.planned} not done{so_far}")
    return ", ".join(words)


def _cell(cell: Cell, metric: str, method: Method) -> Json:
    spread = method.spread(metric)
    sort = cell.value if cell.value is not None else spread.mean
    found: Json = {"text": cell.text, "sort": sort}
    if cell.winner:
        found["winner"] = True
    if (paper := method.reported(metric)) is not None:
        found["paper"] = _printed(paper)
        if (apart := _apart(spread, paper, metric)) is not None:
            found["apart"] = f"{apart:+.1f}"
    return found


def _printed(paper: Reported) -> str:
    deviation = "" if paper.deviation is None else f" ({paper.deviation:.1f})"
    return f"{paper.mean:.1f}{deviation}"


def _apart(ours: Spread, paper: Reported, metric: str) -> float | None:
    """Ours less the paper's, in units of their joint deviation."""
    if ours.mean is None or ours.deviation is None or paper.deviation is None:
        return None
    scale = 1.0 if metric == "rounds_to_target" else 100.0
    joint = math.hypot(scale * ours.deviation, paper.deviation)
    return (scale * ours.mean - paper.mean) / joint if joint else None
