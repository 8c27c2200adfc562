"""Traces: when real or imagined devices are there, how fast they are, how often they drop out."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import DataError, FedforError, nearest, require_number, require_whole

SLOWEST, FASTEST = 1e-6, 1e6
"""Beyond these, a speed is a mistake."""

EXAMPLE = '{"there": [[0, 8], [20, 24]], "period": 24, "dropout": 0.05, "speed": 0.5}'


@dataclass(frozen=True, slots=True)
class Device:
    """One line of a trace. What it does not say (None) is left to rates."""

    there: tuple[tuple[int, int], ...] | None = None
    """From when until before when it is there, in rounds since the first."""
    period: int | None = None
    """After so many rounds it starts over; without, it does not come back."""
    dropout: float | None = None
    """The chance that it drops out, once called."""
    speed: float | None = None
    """How much work it does in a unit of time."""

    def __post_init__(self) -> None:
        if self.period is not None:
            require_whole("the device", "period", self.period)
        if self.dropout is not None:
            require_number("the device", "dropout", self.dropout, least=0, most=1)
        if self.speed is not None:
            require_number("the device", "speed", self.speed, least=SLOWEST, most=FASTEST)
        for start, end in self.there or ():
            self._require_interval(start, end)

    def _require_interval(self, start: int, end: int) -> None:
        for time in (start, end):
            require_whole("the device", "a time in 'there'", time, least=0)
        if start >= end:
            raise DataError(
                f"the device: 'there' goes from {start} to {end}, and an end must be after its "
                "start; over the end of a period, write two intervals"
            )
        if self.period is not None and end > self.period:
            raise DataError(
                f"the device: 'there' ends at {end}, after its period of {self.period}; "
                "end it with the period, or make that longer"
            )

    def is_there(self, round: int) -> bool | None:  # noqa: A002
        """Whether it is there in a round, if it says; rounds are counted from 1."""
        if self.there is None:
            return None
        time = round - 1 if self.period is None else (round - 1) % self.period
        return any(start <= time < end for start, end in self.there)


def read_trace(path: Path) -> tuple[Device, ...]:
    """The devices of a JSON Lines file, in its order."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"availability.trace: there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"availability.trace: {path} cannot be read as text ({error})") from error
    if not text.strip():
        raise DataError(f"availability.trace: {path} is empty; write a device a line: {EXAMPLE}")
    lines = text.rstrip().split("\n")
    return tuple(_device(f"{path}, line {n}", line) for n, line in enumerate(lines, 1))


def _device(where: str, line: str) -> Device:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON; write a device: {EXAMPLE}") from error
    if not isinstance(told, dict):
        raise DataError(f"{where} is not a table; write a device: {EXAMPLE}")
    known = [field.name for field in fields(Device)]
    if unknown := [key for key in told if key not in known]:
        hint = nearest(unknown[0], known)
        raise DataError(f"{where}: a device has no '{unknown[0]}'; {hint}")
    there = told.pop("there", None)
    try:
        return Device(None if there is None else _intervals(there), **told)
    except FedforError as error:
        raise DataError(f"{where}: {str(error).removeprefix('the device: ')}") from error
    except OverflowError as error:  # a whole number that no float can hold
        raise DataError(f"{where}: a number is too large; write smaller ones") from error


def _intervals(told: Any) -> tuple[tuple[int, int], ...]:
    pairs = isinstance(told, list) and all(isinstance(p, list) and len(p) == 2 for p in told)
    if not pairs:
        raise DataError("'there' must be a list of pairs, such as [[0, 8], [20, 24]]")
    return tuple((start, end) for start, end in told)
