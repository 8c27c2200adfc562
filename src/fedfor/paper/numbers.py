"""The numbers that the paper prints."""

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Reported:
    """A mean, and the deviation over three runs where the paper gives one. Accuracies in %."""

    mean: float
    deviation: float | None = None


@functools.cache
def tables() -> dict[str, Any]:
    text = files("fedfor.paper").joinpath("tables.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def reported(table: str, method: str, epochs: int, metric: str, up_to: int) -> Reported | None:
    """What a table says of a method, by the names that summaries use; None where it is silent.

    The best accuracy is given for certain rounds only: `up_to` must be one of them.
    """
    of_method = tables()[table]["methods"].get(method, [])
    found: dict[str, Any] = next((e for e in of_method if e["local_epochs"] == epochs), {})
    if metric in ("best_half", "best"):
        cells = [found[key] for key in ("half", "final") if key in found]
        cell = next((cell for cell in cells if cell["round"] == up_to), None)
        return None if cell is None else Reported(cell["mean"], cell["std"])
    key = {"mean_over_rounds": "mean", "rounds_to_target": "rounds_to_target"}.get(metric)
    number = None if key is None else found.get(key)
    return None if number is None else Reported(number)


def methods(table: str) -> list[str] | None:
    """The rows of a table, or None if there is no such table."""
    found = tables().get(table)
    return list(found["methods"]) if isinstance(found, dict) else None
