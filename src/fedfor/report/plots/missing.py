"""What runs do not tell, said aloud."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ConfigError
from ..methods import Method

NEWER = "runs that this version of fedfor makes do"
UNTESTED = "no round of theirs was tested yet (evaluation.every says how often)"


def told_by(
    methods: Sequence[Method],
    tells: Callable[[dict[str, Any]], object],
    what: str,
    otherwise: str = NEWER,
) -> list[Method]:
    """The methods of which a record tells it. The others are named; if none does, it ends here."""
    found = [
        method
        for method in methods
        if any(tells(record) is not None for run in method.runs for record in run.records)
    ]
    if not found:
        raise ConfigError(nothing(methods, what, otherwise))
    if left := [method for method in methods if method not in found]:
        names = ", ".join(dict.fromkeys(_name(method) for method in left))
        warnings.warn(f"no run of {names} tells {what}; left out", stacklevel=2)
    return found


def _name(method: Method) -> str:
    return f"{method.label} at {method.point}" if method.point else method.label


def nothing(methods: Sequence[Method], what: str, otherwise: str = NEWER) -> str:
    """Why there is nothing to draw."""
    runs = [run for method in methods for run in method.runs]
    if runs and all(run.state == "diverged" and not run.records for run in runs):
        return "all of these runs diverged in their first round, so there is nothing to draw"
    if not any(run.records for run in runs):
        return "none of these runs has done a round yet, so there is nothing to draw"
    if all(run.only_curve for run in runs):
        return (
            f"no run here tells {what}: of single rounds, a file of results has accuracies "
            "alone; name the folders of its runs"
        )
    if all(run.on_flower for run in runs):
        return f"no run here tells {what}; federations on Flower record only what clients send"
    if otherwise == NEWER and all(r.get("abandoned") for run in runs for r in run.records):
        return f"no run here tells {what}: every round of theirs was abandoned"
    return f"no run here tells {what}; {otherwise}"
