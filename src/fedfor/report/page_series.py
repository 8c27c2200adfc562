"""The numbers of a run, round by round, as a page draws them."""

from collections.abc import Sequence
from itertools import accumulate

from ..experiments.simulation import Record
from .sound import number

Series = list[float | int | None]

SERIES = {
    "accuracy": (100.0, 4),
    "loss": (1.0, 6),
    "train_loss": (1.0, 6),
    "cosine": (1.0, 4),
    "opposing": (100.0, 3),
    "disagreement": (1.0, 4),
    "state_bytes": (1.0, 0),
}
"""What of a record is drawn: the factor, and the digits that are kept."""

TOTALS = {"down_cross_device": 0, "down_cross_silo": 0, "up": 0, "seconds": 3}
"""What is drawn as the sum of all rounds so far, with these digits."""

MOST_ROUNDS = 2000
"""Of a run, that are drawn: more cannot be told apart, and would make a large page."""


def series(records: Sequence[Record]) -> dict[str, Series]:
    """All that is told, at the rounds that are drawn."""
    places = drawn(records)
    found = {key: _series(records, places, key) for key in SERIES}
    found |= {key: _totals_by_round(records, places, key) for key in TOTALS}
    return {key: values for key, values in found.items() if values is not None}


def bests(records: Sequence[Record]) -> dict[str, list[float]]:
    """The rounds that were better than all before, and how good: of all, drawn or not."""
    found: dict[str, list[float]] = {"at": [], "values": []}
    for record in records:
        accuracy = number(record, "accuracy")
        value = None if accuracy is None else _short(100 * accuracy, 4)
        if value is not None and (not found["values"] or value > found["values"][-1]):
            found["at"].append(record["round"])
            found["values"].append(value)
    return found


def drawn(records: Sequence[Record]) -> list[int]:
    """The places of the records that are drawn: all, or of too many each so-manyth tested one."""
    places = range(len(records))
    if len(places) <= MOST_ROUNDS:
        return list(places)
    tested = [i for i in places if number(records[i], "accuracy") is not None] or list(places)
    every = -(-len(tested) // MOST_ROUNDS)
    return [i for n, i in enumerate(tested, 1) if n % every == 0 or i == tested[-1]]


def _series(records: Sequence[Record], places: Sequence[int], key: str) -> Series | None:
    """None where no round tells it."""
    scale, digits = SERIES[key]
    values = [number(records[i], key) for i in places]
    if all(value is None for value in values):
        return None
    return [None if v is None else _short(scale * v, digits) for v in values]


def _totals_by_round(records: Sequence[Record], places: Sequence[int], key: str) -> Series | None:
    """None where a round does not tell it: a sum that leaves it out would be too small."""
    values = [number(record, key) for record in records]
    if not values or any(value is None for value in values):
        return None
    sums = list(accumulate(value or 0.0 for value in values))
    return [_short(sums[i], TOTALS[key]) for i in places]


def _short(value: float, digits: int) -> float | int:
    return round(value) if digits == 0 else round(value, digits)
