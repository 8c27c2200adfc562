"""All that a page of runs shows, as JSON: the report and the live page draw the same."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .. import __version__
from .loading import LoadedRun
from .methods import Method, differing, flat, labels, methods_of, number
from .page_table import table

Json = dict[str, Any]

SERIES = {
    "accuracy": (100.0, 4),
    "loss": (1.0, 6),
    "train_loss": (1.0, 6),
    "cosine": (1.0, 4),
    "opposing": (100.0, 3),
    "disagreement": (1.0, 4),
    "down_cross_device": (1.0, 0),
    "down_cross_silo": (1.0, 0),
    "up": (1.0, 0),
    "state_bytes": (1.0, 0),
    "seconds": (1.0, 4),
}
"""What of a record is drawn: the factor, and the digits that are kept."""

MOST_FAILURES = 200
MOST_SHIFTS = 60


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
        "settings": _settings(methods, names),
        "environments": _environments(runs),
        "failures": _failures(methods),
        "notes": list(dict.fromkeys(n for r in runs for n in (r.summary or {}).get("notes", ()))),
    }


def _run(run: LoadedRun, method: int, point: int) -> Json:
    rounds = [r["round"] for r in run.records]
    series = {key: _series(run, key) for key in SERIES}
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
        "series": {key: values for key, values in series.items() if values is not None},
        "problems": list(run.problems),
    }


def _series(run: LoadedRun, key: str) -> list[float | int | None] | None:
    """None where no round tells it."""
    scale, digits = SERIES[key]
    values = [number(record, key) for record in run.records]
    if all(value is None for value in values):
        return None
    return [None if v is None else _short(scale * v, digits) for v in values]


def _short(value: float, digits: int) -> float | int:
    return round(value) if digits == 0 else round(value, digits)


def _point(name: str, methods: Sequence[Method], names: Sequence[str]) -> Json:
    runs = [run for method in methods for run in method.runs]
    shifts = sorted({r["round"] for run in runs for r in run.records if "shift" in r})
    targets = [run.target for run in runs if run.target is not None]
    return {
        "name": name,
        "target": 100 * targets[0] if targets else None,
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
        "parts": _parts(methods, names),
        "cohort": next((found for run in runs if (found := _cohort(run)) is not None), None),
    }


def _totals(method: Method) -> Json:
    """Bytes of all rounds, and kept after the last: the mean over the runs."""
    found: Json = {}
    for key in ("down_cross_device", "down_cross_silo", "up", "state_bytes"):
        values = [v for run in method.runs if (v := number(run.figures, key)) is not None]
        found[key] = round(statistics.fmean(values)) if values else None
    return found


def _cohort(run: LoadedRun) -> Json | None:
    """What its clients have, if its file is what it should be."""
    clients = None if run.cohort is None else run.cohort.get("clients")
    if run.cohort is None or not isinstance(clients, list) or not clients:
        return None
    sound = all(isinstance(c, dict) and isinstance(c.get("counts"), list) for c in clients)
    return {**run.cohort, "seed": run.seed} if sound else None


def _parts(methods: Sequence[Method], names: Sequence[str]) -> Json | None:
    """Accuracy by domain, or else by class: of each method, the mean over its runs."""
    for key, kind in (("domains", "domain"), ("classes", "class")):
        found = {names.index(m.label): _by_part(m, key) for m in methods}
        parts = list(dict.fromkeys(part for of in found.values() for part in of))
        if parts:
            return {
                "kind": kind,
                "names": [_part_name(part, key, methods) for part in parts],
                "methods": {
                    str(place): [_columns(of.get(part, {})) for part in parts]
                    for place, of in found.items()
                    if of
                },
            }
    return None


def _part_name(part: str, key: str, methods: Sequence[Method]) -> str:
    if key == "domains":
        return part
    cohorts = [run.cohort or {} for method in methods for run in method.runs]
    told: list[str] = next((c["class_names"] for c in cohorts if c.get("class_names")), [])
    return str(told[int(part)]) if int(part) < len(told) else part


def _by_part(method: Method, key: str) -> dict[str, dict[int, float]]:
    values: dict[str, dict[int, list[float]]] = {}
    for run in method.runs:
        for record in run.records:
            told = _named(record.get(key))
            for part in told:
                if (value := number(told, part)) is not None:
                    values.setdefault(part, {}).setdefault(record["round"], []).append(value)
    return {
        part: {t: 100 * statistics.fmean(of) for t, of in sorted(by_round.items())}
        for part, by_round in values.items()
    }


def _named(told: object) -> Mapping[str, Any]:
    """Accuracies by domain have names; by class, a list has them in order."""
    if isinstance(told, list):
        return {str(place): value for place, value in enumerate(told)}
    return told if isinstance(told, Mapping) else {}


def _columns(curve: Mapping[int, float]) -> Json:
    """Rounds, and values, which are most of a page: two digits are what can be seen."""
    return {"at": list(curve), "values": [round(v, 2) for v in curve.values()]}


def missing(methods: Sequence[Method]) -> Json:
    """For each part of the page, what is not there and why; nothing where all is."""
    runs = [run for method in methods for run in method.runs]
    found: Json = {}

    def tell(part: str, key: str, why: str) -> None:
        lacking = [run for run in runs if all(r.get(key) is None for r in run.records)]
        if lacking:
            who = "No run" if len(lacking) == len(runs) else f"{len(lacking)} of {len(runs)} runs"
            verb = "tells" if who == "No run" else "do not tell"
            found.setdefault(part, []).append(f"{who} {verb} {why}.")

    tell("curves", "accuracy", "its test accuracy")
    tell("bytes", "down_cross_device", f"its bytes by round{_because(runs)}")
    tell("state", "state_bytes", f"the state on its clients by round{_because(runs)}")
    tell("agreement", "cosine", f"how its clients' updates agree{_because(runs)}")
    if all("domains" not in r and "classes" not in r for run in runs for r in run.records):
        why = "clients on Flower do not tell their classes" if runs[0].on_flower else ""
        why = why or "neither domains nor classes are in the records"
        found["parts"] = [f"Accuracy by domain or class is not there: {why}{_because(runs)}."]
    if all(_cohort(run) is None for run in runs):
        why = "clients on Flower do not tell their labels" if runs[0].on_flower else ""
        why = why or "no run has a cohort.json"
        found["cohort"] = [f"What data the clients have is not there: {why}{_because(runs)}."]
    return found


def _because(runs: Sequence[LoadedRun]) -> str:
    if all(run.only_curve for run in runs):
        return " (a file of results has accuracies alone)"
    return ""


def _settings(methods: Sequence[Method], names: Sequence[str]) -> Json:
    """What differs between the methods, and what they have in common."""
    tables = [flat(method.runs[0].config) for method in methods]
    keys = differing(tables)
    columns = [{"method": names.index(method.label), "point": method.point} for method in methods]
    every = dict.fromkeys(key for table in tables for key in table)
    return {
        "columns": columns,
        "rows": [[key, [_shown(table.get(key)) for table in tables]] for key in keys],
        "common": {key: _shown(tables[0][key]) for key in every if key not in keys},
    }


def _shown(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _environments(runs: Sequence[LoadedRun]) -> list[Json]:
    """The versions and devices that runs were made with, and how many runs each."""
    found: dict[str, Json] = {}
    for run in runs:
        facts = {str(k): _shown(v) for k, v in run.environment.items()}
        facts.pop("together", None)  # which depends on what else was left to do
        found.setdefault(str(sorted(facts.items())), {"facts": facts, "runs": 0})["runs"] += 1
    return list(found.values())


def _failures(methods: Sequence[Method]) -> Json:
    """Clients whose replies were rejected, as federations on Flower record it."""
    told = [
        {
            "run": f"{method.label}, seed {run.seed}",
            "round": record["round"],
            "node": str(one.get("node", "")),
            "why": str(one.get("why", "")),
        }
        for method in methods
        for run in method.runs
        for record in run.records
        for one in record.get("rejected") or ()
        if isinstance(one, Mapping)
    ]
    return {"count": len(told), "shown": told[-MOST_FAILURES:]}
