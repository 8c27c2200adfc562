"""All that a page of runs shows, as JSON: the report and the live page draw the same."""

from collections.abc import Sequence
from typing import Any

from .. import __version__
from .loading import LoadedRun
from .methods import Method, labels, methods_of
from .page_clients import cohort_of, participation, parts
from .page_series import bests, drawn, series
from .page_table import note, so_far, table
from .page_words import environments, failures, missing, settings

Json = dict[str, Any]

MOST_SHIFTS = 60
TOTALS = ("down_cross_device", "down_cross_silo", "up", "state_bytes")


def page_data(runs: Sequence[LoadedRun], title: str) -> Json:
    """Everything about these runs that can be drawn, and words for what cannot."""
    methods = methods_of(runs)
    names = labels(methods)
    points = list(dict.fromkeys(method.point for method in methods))
    return {
        "title": title,
        "fedfor": __version__,
        "methods": names,
        "points": [
            _point(point, [m for m in methods if m.point == point], names) for point in points
        ],
        "runs": [
            _run(run, names.index(method.label), points.index(method.point))
            for method in methods
            for run in method.runs
        ],
        "missing": missing(methods),
        "settings": settings(methods, names),
        "environments": environments(runs),
        "failures": failures(methods),
        "notes": list(dict.fromkeys(n for r in runs for n in (r.summary or {}).get("notes", ()))),
    }


def _run(run: LoadedRun, method: int, point: int) -> Json:
    rounds = [run.records[i]["round"] for i in drawn(run.records)]
    return {
        "path": str(run.path),
        "method": method,
        "point": point,
        "seed": run.seed,
        "state": run.state,
        "words": str((run.summary or {}).get("diverged", "")),
        "planned": run.planned,
        "flower": run.on_flower,
        "rounds": len(rounds) if rounds == list(range(1, len(rounds) + 1)) else rounds,
        "series": series(run.records),
        "bests": bests(run.records),
        "problems": list(run.problems),
    }


def _point(name: str, methods: Sequence[Method], names: Sequence[str]) -> Json:
    runs = [run for method in methods for run in method.runs]
    shifts = sorted({r["round"] for run in runs for r in run.records if "shift" in r})
    targets = [run.target for run in runs if run.target is not None]
    return {
        "name": name,
        "target": round(100 * targets[0], 4) if targets else None,
        "rounds": max((run.planned for run in runs), default=0),
        "table": table(methods, names),
        "paper": [
            {"method": names.index(m.label), "round": at, "accuracy": found.mean}
            for m in methods
            for metric, at in (("best_half", m.runs[0].half), ("best", m.runs[0].planned))
            if (found := m.reported(metric)) is not None
        ],
        "totals": {str(names.index(m.label)): _totals(m) for m in methods},
        "shifts": shifts if len(shifts) <= MOST_SHIFTS else [],
        "parts": parts(methods, names),
        "participation": participation(methods, names),
        "cohort": next((cohort for run in runs if (cohort := cohort_of(run)) is not None), None),
    }


def _totals(method: Method) -> Json:
    """Bytes of all rounds, and kept after the last: the mean over the runs that have ended, none
    where one diverged, which would flatter it; of a method that has none yet, so far."""
    figures = method if method.summaries else so_far(method)
    means = {key: figures.spread(key).mean for key in TOTALS}
    totals: Json = {key: None if mean is None else round(mean) for key, mean in means.items()}
    return {**totals, "note": note(method)}
