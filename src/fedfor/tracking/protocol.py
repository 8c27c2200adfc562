"""What a tracker is: a place outside of the run folder where people look at runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .numbers import flat_settings


@dataclass(frozen=True)
class Run:
    """What a tracker is told of a run before its rounds."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    group: str
    """Runs of one group differ in the seed, as a rule: the algorithm with its settings."""
    first: int = 1
    """The first round to come. Rounds before it have been logged by an earlier process."""
    kept: Mapping[str, str] | None = None
    """What `start` gave back when the run was new."""

    @property
    def algorithm(self) -> str:
        table = self.config.get("algorithm", "")
        if isinstance(table, Mapping):
            return str(table.get("name", table.get("label", "")))
        return str(table)

    @property
    def seed(self) -> str:
        return str(self.config.get("seed", ""))

    @property
    def settings(self) -> dict[str, bool | int | float | str]:
        """The config in one level: `training.lr`."""
        return flat_settings(self.config)


@dataclass(frozen=True)
class Round:
    number: int
    numbers: Mapping[str, float]
    """All numbers of the record in one level, such as `domains/mnist`, and totals up to here."""
    record: Mapping[str, Any]
    """The line of rounds.jsonl."""


class Tracker(Protocol):
    """Made anew, without arguments, for each run, in a process that does nothing else."""

    def start(self, run: Run) -> Mapping[str, str] | None:
        """Begin, or go on where `run.kept` says. What is given back is kept for that."""

    def log(self, rounds: Sequence[Round]) -> None:
        """Rounds that have been done since, in order."""

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """No more rounds: the run's summary, or None where it was cut off."""
