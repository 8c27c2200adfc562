"""Numbers, settings and names in the forms that trackers take."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

TOTALS = ("down_cross_device", "down_cross_silo", "up", "wire_down", "wire_up", "seconds")
"""What of a record is worth adding up over rounds."""


def flat_numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """All finite numbers, those in tables and lists as `domains/mnist` and `classes/0`."""
    return dict(_numbers(record, ""))


def summary_numbers(summary: Mapping[str, Any]) -> dict[str, float]:
    """Those of a run's end, but for its seed."""
    found = flat_numbers({key: value for key, value in summary.items() if key != "seed"})
    return {f"summary/{name}": number for name, number in found.items()}


def _numbers(value: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name}/{_text(key)}" if name else _text(key))
    elif isinstance(value, list) and any(isinstance(inner, (Mapping, str)) for inner in value):
        yield name, len(value)  # how many clients were rejected, not who
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(inner, f"{name}/{place}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return
        if math.isfinite(number):
            yield name, value


def flat_settings(config: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Hyper-parameters in one level: `training.lr`. What is not set is not there."""
    return dict(_settings(config, ""))


def _settings(value: Any, name: str) -> Iterator[tuple[str, bool | int | float | str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _settings(inner, f"{name}.{_text(key)}" if name else _text(key))
    elif isinstance(value, (bool, int, float)):
        yield name, value
    elif isinstance(value, str):
        yield name, _text(value)
    elif value is not None:
        yield name, json.dumps(value, default=str)


def _text(value: object) -> str:
    """What no encoder refuses: JSON may hold halves of characters."""
    return str(value).encode("utf-8", "replace").decode()


def fitting(name: str, unfit: str, longest: int) -> str:
    """A name without what matches `unfit`. One that is changed ends in a hash of what it was, so
    that no two become one."""
    clean = re.sub(unfit, "_", name)
    if clean == name and len(name) <= longest:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{clean[: longest - 9]}-{mark}"
