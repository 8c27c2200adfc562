"""What was read from files, as far as it can be what it should be: anybody may have written it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..experiments.metrics import METRICS, PARTICIPATION, summarise
from ..experiments.simulation import Record

COUNTED = ("down_cross_device", "down_cross_silo", "up", "state_bytes", "clients_with_state")
"""Figures that all rounds must tell."""


def number(record: Mapping[str, Any], key: str) -> float | None:
    """What a record says under this key, if it is a finite number."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def sound_summary(told: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """A summary without what cannot be in one, which is told."""
    found: dict[str, Any] = {}
    for key, value in told.items():
        if key in METRICS and value is not None and number(told, key) is None:
            problems.append(f"its summary.json has no number under '{key}'")
        elif key == "notes":
            found[key] = [str(note) for note in value] if isinstance(value, list) else []
        elif key == "domains":
            found[key] = dict(value) if isinstance(value, Mapping) else {}
        elif key == "participation":
            told_by = value if isinstance(value, Mapping) else {}
            found[key] = {k: n for k in PARTICIPATION if (n := number(told_by, k)) is not None}
            if len(found[key]) < len(PARTICIPATION):
                problems.append("its summary.json does not tell all of who took part")
        else:
            found[key] = value
    return found


def figures_so_far(
    records: Sequence[Record], planned: int, half: int, target: float | None
) -> dict[str, Any]:
    """As the summary would say if it ended now; without what not every round tells."""
    if not records:
        return {}
    clean = [
        {
            **dict.fromkeys(COUNTED, 0.0),
            **{key: value for key in record if (value := number(record, key)) is not None},
            **({"shift": {}} if "shift" in record else {}),
            "round": record["round"],
        }
        for record in records
    ]
    found = summarise(clean, planned, half, target)
    untold = [k for k in COUNTED if any(number(record, k) is None for record in records)]
    return {key: value for key, value in found.items() if key not in untold}
