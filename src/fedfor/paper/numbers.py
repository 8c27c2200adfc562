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


def reported(table: str, method: str, epochs: int, metric: str) -> Reported | None:
    """What a table says of a method, by the names that summaries use; None where it is silent."""
    of_method = tables()[table]["methods"].get(method, [])
    found: dict[str, Any] = next(
        (entry for entry in of_method if entry["local_epochs"] == epochs), {}
    )
    if metric == "rounds_to_target":
        rounds = found.get(metric)
        return None if rounds is None else Reported(rounds)
    if metric == "mean_over_rounds":
        mean = found.get("mean")
        return None if mean is None else Reported(mean)
    cell = found.get({"best_half": "half", "best": "final"}.get(metric, ""))
    return None if cell is None else Reported(cell["mean"], cell["std"])
