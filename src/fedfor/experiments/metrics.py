"""The paper's figures of merit, from the records of rounds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from .simulation import Record

ACCURACIES = ("best_half", "best", "late", "final", "mean_over_rounds")
"""Of a summary: what is better when it is higher."""

METRICS = (
    *ACCURACIES,
    "rounds_to_target",
    "recovery",
    "unrecovered",
    "down_cross_device",
    "down_cross_silo",
    "up",
    "state_bytes",
    "local_steps",
    "seconds",
)
"""All figures of a summary that a table may show."""

PARTICIPATION = ("called", "counted", "away", "dropped", "late", "surplus", "abandoned", "waited")
"""What `participation` of a summary tells: over all rounds, but `waited` in the mean."""


def evaluated(records: Iterable[Record]) -> list[Record]:
    return [r for r in records if r.get("accuracy") is not None]


def best_accuracy(records: Iterable[Record], up_to: int) -> float | None:
    """The best accuracy of any evaluated round up to this one."""
    return max((r["accuracy"] for r in evaluated(records) if r["round"] <= up_to), default=None)


def rounds_to(records: Iterable[Record], target: float) -> int | None:
    """The first round that reaches the target, a fraction, or None if none does."""
    if not 0 < target <= 1:
        raise ConfigError(f"a target is a fraction, such as 0.8, not {target}")
    return next((r["round"] for r in evaluated(records) if r["accuracy"] >= target), None)


def late_after(rounds: int) -> int:
    return rounds - max(1, rounds // 10)


def late_accuracy(curve: Mapping[int, float], rounds: int) -> float | None:
    """The mean of the last tenth of all rounds: how good a model is that nobody picked."""
    if not curve:
        return None
    before = min(late_after(rounds), max(curve) - 1)
    return statistics.fmean(accuracy for t, accuracy in curve.items() if t > before)


def mean_accuracy(records: Iterable[Record]) -> float | None:
    """The mean over the evaluated rounds: what counts when the concept keeps shifting."""
    accuracies = [r["accuracy"] for r in evaluated(records)]
    return statistics.fmean(accuracies) if accuracies else None


RECOVERED = 0.95


@dataclass(frozen=True)
class Recovery:
    """What followed a concept shift."""

    round: int
    """The first round under the new concept."""
    rounds: int
    """Rounds until the accuracy was back at 95 % of what it was before; if it never was before
    the next shift or the end, as many as there were."""
    recovered: bool


def recoveries(records: Sequence[Record]) -> list[Recovery]:
    """Of each shift that has a round before it, evaluated rounds alone counting."""
    by_round = {r["round"]: r for r in records}
    shifts = [r["round"] for r in records if "shift" in r]
    last = max(by_round, default=0)
    found = []
    for place, first in enumerate(shifts):
        before = by_round.get(first - 1, {}).get("accuracy")
        if before is None:
            continue
        end = shifts[place + 1] - 1 if place + 1 < len(shifts) else last
        back = next(
            (
                t
                for t in range(first, end + 1)
                if by_round[t].get("accuracy", 0.0) >= RECOVERED * before
            ),
            None,
        )
        rounds = (end if back is None else back) - first + 1
        found.append(Recovery(first, rounds, back is not None))
    return found


def participation(records: Iterable[Record]) -> dict[str, float]:
    """Clients over all rounds, rounds that were abandoned, and how long a round took; nothing
    where everyone is always there."""
    told = [r for r in records if "called" in r and "clients" in r]
    if not told:
        return {}
    return {
        **{key: sum(r.get(key, 0) for r in told) for key in PARTICIPATION},
        "counted": sum(r["clients"] for r in told),
        "abandoned": sum(r["clients"] == 0 for r in told),
        "waited": statistics.fmean(r.get("waited", 0.0) for r in told),
    }


def summarise(
    records: Sequence[Record], rounds: int, half: int, target: float | None
) -> dict[str, Any]:
    """All that a table needs of one run."""
    tested = evaluated(records)
    last, curve = tested[-1:], {r["round"]: r["accuracy"] for r in tested}
    summary: dict[str, Any] = {
        "rounds": len(records),
        "best_half": best_accuracy(records, half),
        "best": best_accuracy(records, rounds),
        "late": late_accuracy(curve, rounds),
        "final": last[0]["accuracy"] if last else None,
        "mean_over_rounds": mean_accuracy(records),
        "down_cross_device": sum(r["down_cross_device"] for r in records),
        "down_cross_silo": sum(r["down_cross_silo"] for r in records),
        "up": sum(r["up"] for r in records),
        "state_bytes": records[-1]["state_bytes"] if records else 0,
        "clients_with_state": records[-1]["clients_with_state"] if records else 0,
    }
    if steps := [r["local_steps"] for r in records if "local_steps" in r]:
        summary["local_steps"] = statistics.fmean(steps)
    if took_part := participation(records):
        summary["participation"] = took_part
    if target is not None:
        summary["rounds_to_target"] = rounds_to(records, target)
    if found := recoveries(records):
        summary["recovery"] = statistics.fmean(r.rounds for r in found)
        summary["unrecovered"] = statistics.fmean(not r.recovered for r in found)
    if last and "domains" in last[0]:
        summary["domains"] = last[0]["domains"]
    return summary


@dataclass(frozen=True)
class Spread:
    """Values of several seeds. None stands for one that never got there: told, not dropped."""

    values: tuple[float | None, ...]

    @property
    def reached(self) -> list[float]:
        return [v for v in self.values if v is not None]

    @property
    def mean(self) -> float | None:
        """The mean if every seed has a value: a mean over the lucky ones would flatter."""
        complete = self.values and None not in self.values
        return statistics.fmean(self.reached) if complete else None

    @property
    def deviation(self) -> float | None:
        """The sample deviation, of two seeds or more."""
        complete = len(self.values) > 1 and None not in self.values
        return statistics.stdev(self.reached) if complete else None
