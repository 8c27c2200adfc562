"""What a page shows of single domains, classes and clients."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..experiments.metrics import PARTICIPATION
from .loading import LoadedRun
from .methods import Method
from .page_series import drawn
from .page_table import note, so_far
from .sound import number

Json = dict[str, Any]


PARTS = {"domains": "domain", "classes": "class"}
"""Of what a record tells single accuracies, and what one of them is called."""


def part_kind(run: LoadedRun) -> str | None:
    return next((key for key in PARTS if any(_named(r.get(key)) for r in run.records)), None)


def parts(methods: Sequence[Method], names: Sequence[str]) -> Json | None:
    """Accuracy by domain, or else by class: of each method, the mean over its runs."""
    for key, kind in PARTS.items():
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
    cohorts = [cohort_of(run) or {} for method in methods for run in method.runs]
    told: list[str] = next((c["class_names"] for c in cohorts if c.get("class_names")), [])
    named = told[int(part)] if part.isdecimal() and int(part) < len(told) else part
    return named.strip() or part


def _by_part(method: Method, key: str) -> dict[str, dict[int, float]]:
    values: dict[str, dict[int, list[float]]] = {}
    for run in method.runs:
        for record in (run.records[i] for i in drawn(run.records)):
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


def participation(methods: Sequence[Method], names: Sequence[str]) -> Json | None:
    """Of methods whose clients are not always there, who took part: the mean over the runs that
    have ended; where none has, so far."""
    found = {}
    for method in methods:
        if not any("participation" in run.figures for run in method.runs):
            continue
        figures = method if method.summaries else so_far(method)
        means = {key: figures.participation_spread(key).mean for key in PARTICIPATION}
        rounds = figures.spread("rounds").mean
        found[str(names.index(method.label))] = {**means, "rounds": rounds, "note": note(method)}
    return found or None


def cohort_of(run: LoadedRun) -> Json | None:
    """What its clients have, if its file is what it should be."""
    clients = None if run.cohort is None else run.cohort.get("clients")
    if run.cohort is None or not isinstance(clients, list) or not clients:
        return None
    shown = [_client(client) for client in clients]
    if not all(client and client["counts"] for client in shown):
        return None
    names = run.cohort.get("class_names") or []
    return {
        "who": f"{run.label}, seed {run.seed}",
        "round": _whole(run.cohort.get("round")) or 1,
        "of": _whole(run.cohort.get("of")) or len(shown),
        "population": _whole(run.cohort.get("population")) or len(shown),
        "class_names": [str(name) for name in names] if isinstance(names, list) else [],
        "clients": shown,
    }


def _client(told: object) -> Json | None:
    counts = told.get("counts") if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(counts, list):
        return None
    domain = told.get("domain")
    return {
        "client": str(told.get("client", "")),
        "counts": [_whole(count) for count in counts],
        **({} if domain is None else {"domain": str(domain)}),
    }


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
