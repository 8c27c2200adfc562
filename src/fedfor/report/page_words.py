"""What a page says in words: what is missing, settings, environments, failures."""

from collections.abc import Mapping, Sequence
from typing import Any

from .loading import LoadedRun
from .methods import Method
from .naming import differing, flat
from .page_clients import PARTS, cohort_of, part_kind
from .page_series import MOST_ROUNDS

Json = dict[str, Any]

MOST_FAILURES = 200


def missing(methods: Sequence[Method]) -> Json:
    """For each part of the page, what is not there and why; nothing where all is."""
    runs = [run for method in methods for run in method.runs if run.records]
    found: Json = {}
    if not runs:  # none has begun, so nothing can be said of them yet
        return found

    def tell(part: str, key: str, what: str) -> None:
        without = [run for run in runs if all(r.get(key) is None for r in run.records)]
        if without:
            found.setdefault(part, []).append(
                _lacking(runs, without, what, "its clients do not send it")
            )

    tell("curves", "accuracy", "its test accuracy")
    if any(len(run.records) > MOST_ROUNDS for run in runs):
        found.setdefault("curves", []).append(
            f"Of runs with over {MOST_ROUNDS:,} rounds, not all are drawn; the table counts all."
        )
    tell("bytes", "down_cross_device", "its bytes by round")
    tell("state", "state_bytes", "the state on its clients by round")
    tell("agreement", "cosine", "how its clients' updates agree")
    kinds = [kind for run in runs if (kind := part_kind(run)) is not None]
    shown = "domains" if "domains" in kinds else "classes"
    without = [run for run in runs if part_kind(run) != shown]
    if without:
        what = f"accuracy by {'domain or class' if not kinds else PARTS[shown]}"
        found["parts"] = [_lacking(runs, without, what, "clients on Flower do not tell classes")]
    without = [run for run in runs if cohort_of(run) is None]
    if without:
        what = "what data its clients have"
        found["cohort"] = [_lacking(runs, without, what, "clients on Flower do not tell labels")]
    return found


def _lacking(
    runs: Sequence[LoadedRun], without: Sequence[LoadedRun], what: str, on_flower: str
) -> str:
    who = "No run" if len(without) == len(runs) else f"{len(without)} of {len(runs)} runs"
    why = f" ({on_flower})" if all(run.on_flower for run in without) else _because(without)
    return f"{who} {'tells' if who == 'No run' else 'do not tell'} {what}{why}."


def _because(runs: Sequence[LoadedRun]) -> str:
    if all(run.only_curve for run in runs):
        return " (of single rounds, a file of results has the accuracies alone)"
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


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


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
        for one in _listed(record.get("rejected"))
        if isinstance(one, Mapping)
    ]
    return {"count": len(told), "shown": told[-MOST_FAILURES:]}
