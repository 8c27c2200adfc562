"""What a page says in words: what is missing, settings, environments, failures."""

from collections.abc import Mapping, Sequence
from typing import Any

from .loading import LoadedRun
from .methods import Method, differing, flat
from .page_clients import cohort_of
from .page_series import MOST_ROUNDS

Json = dict[str, Any]

MOST_FAILURES = 200


def missing(methods: Sequence[Method]) -> Json:
    """For each part of the page, what is not there and why; nothing where all is."""
    runs = [run for method in methods for run in method.runs if run.records]
    found: Json = {}
    if not runs:  # none has begun, so nothing can be said of them yet
        return found

    def tell(part: str, key: str, why: str) -> None:
        lacking = [run for run in runs if all(r.get(key) is None for r in run.records)]
        if lacking:
            who = "No run" if len(lacking) == len(runs) else f"{len(lacking)} of {len(runs)} runs"
            verb = "tells" if who == "No run" else "do not tell"
            found.setdefault(part, []).append(f"{who} {verb} {why}.")

    tell("curves", "accuracy", "its test accuracy")
    if any(len(run.records) > MOST_ROUNDS for run in runs):
        found.setdefault("curves", []).append(
            f"Of runs with over {MOST_ROUNDS:,} rounds, not all are drawn; the table counts all."
        )
    tell("bytes", "down_cross_device", f"its bytes by round{_because(runs)}")
    tell("state", "state_bytes", f"the state on its clients by round{_because(runs)}")
    tell("agreement", "cosine", f"how its clients' updates agree{_because(runs)}")
    if all("domains" not in r and "classes" not in r for run in runs for r in run.records):
        why = "clients on Flower do not tell their classes" if runs[0].on_flower else ""
        why = why or "neither domains nor classes are in the records"
        found["parts"] = [f"Accuracy by domain or class is not there: {why}{_because(runs)}."]
    if all(cohort_of(run) is None for run in runs):
        why = "clients on Flower do not tell their labels" if runs[0].on_flower else ""
        why = why or "no run has a cohort.json"
        found["cohort"] = [f"What data the clients have is not there: {why}{_because(runs)}."]
    return found


def _because(runs: Sequence[LoadedRun]) -> str:
    if all(run.only_curve for run in runs):
        return " (a file of results has accuracies alone)"
    return ""


def settings(methods: Sequence[Method], names: Sequence[str]) -> Json:
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


def environments(runs: Sequence[LoadedRun]) -> list[Json]:
    """The versions and devices that runs were made with, and how many runs each."""
    found: dict[str, Json] = {}
    for run in runs:
        facts = {str(k): _shown(v) for k, v in run.environment.items()}
        facts.pop("together", None)  # which depends on what else was left to do
        found.setdefault(str(sorted(facts.items())), {"facts": facts, "runs": 0})["runs"] += 1
    return list(found.values())


def failures(methods: Sequence[Method]) -> Json:
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
