"""What `fedfor scale` has measured: one small file, from which all else is made."""

import json
import statistics
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ..errors import FolderError
from .config import Section
from .folder import write_atomically
from .scale_costs import Cost
from .scale_machine import Machine
from .scale_plan import Case, Plan

RESULTS = "scale.json"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Made(Section):
    """What the figures were made by."""

    command: str
    commit: str
    """Empty where nobody knows."""
    date: str
    machine: Machine
    versions: dict[str, str]


class Worker(Section):
    """What one worker did in the counted rounds."""

    busy: float
    """The share of the training time that it was at work, on average."""
    clients: int
    """That it trained in all of them."""
    memory: int
    """Its resident bytes at the most."""


class Measured(Section):
    """What came of one case."""

    case: Case
    parameters: int
    """Of the case's model."""
    seconds: tuple[Seconds, ...] = ()
    """Of each counted round."""
    memory: int | None = None
    """The most resident bytes that the driving process had; None where the system does not tell."""
    memory_before: int | None = None
    """The same before its first round: Python, torch, data and model."""
    workers: tuple[Worker, ...] = ()
    problem: str | None = None
    """Why there is nothing, if there is not."""

    @property
    def a_round(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def clients_a_second(self) -> float | None:
        return self.case.cohort / self.a_round if self.a_round else None

    @property
    def worker_memory(self) -> int | None:
        """Of the worker that has the most."""
        return max((worker.memory for worker in self.workers), default=None)


class ScaleResults(Section):
    made: Made
    plan: Plan
    cases: list[Measured] = Field(default_factory=list)
    costs: list[Cost] = Field(default_factory=list)
    problems: dict[str, str] = Field(default_factory=dict)
    """Of models whose costs could not be taken, why."""

    def of(self, case: Case) -> Measured | None:
        return next((one for one in self.cases if one.case == case), None)

    def put(self, measured: Measured) -> None:
        """In place of what the case had before, if it had anything."""
        self.cases[:] = [one for one in self.cases if one.case != measured.case] + [measured]

    @property
    def failed(self) -> int:
        """Of cases and of models whose costs could not be taken."""
        return sum(one.problem is not None for one in self.cases) + len(self.problems)

    def along(self, axis: str) -> list[Measured]:
        """The cases of an axis that were measured, as the plan has them."""
        found = [self.of(case) for case in self.plan.along(axis)]
        return [one for one in found if one is not None and one.a_round is not None]

    def speed_up(self, one: Measured) -> float | None:
        """Over one worker with the same work; None where that was not measured."""
        if one.case.workers is None:
            return None
        alone = self.of(one.case.model_copy(update={"workers": 1}))
        if alone is None or alone.a_round is None or one.a_round is None:
            return None
        return alone.a_round / one.a_round

    def save(self, path: Path) -> None:
        """A line for each case and cost, so that changes to the file can be read."""
        dumped = self.model_dump(mode="json", exclude_defaults=True)
        head = json.dumps({"made": dumped["made"], "plan": dumped["plan"]}, indent=1)[:-2]
        lists = [f' "{name}": {_lines(dumped.get(name, []))}' for name in ("cases", "costs")]
        problems = f' "problems": {json.dumps(self.problems)}'
        write_atomically(path, ",\n".join([head, *lists, problems, ""])[:-2].encode() + b"\n}\n")


def load_scale(path: Path) -> ScaleResults:
    path = path / RESULTS if path.is_dir() else path
    try:
        return ScaleResults.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise FolderError(f"{path} holds no results of 'fedfor scale' ({why})") from error


def _lines(rows: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]" if rows else "[]"
