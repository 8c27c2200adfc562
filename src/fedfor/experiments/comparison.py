"""Several algorithms x several seeds: what to run, and what came of it."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, ValidationError, field_validator

from ..errors import ConfigError, FolderError
from .config import RunConfig, Section
from .folder import RunFolder, occupied, write_atomically
from .load import load_config, read_toml, set_value
from .metrics import Spread
from .simulation import Record

COMMON = ("population", "evaluation", "model", "data")


class CompareConfig(Section):
    """The [compare] table of a config."""

    algorithms: list[str] = Field(default=["fedavg", "fedfor"], min_length=1)
    """Each a name and settings: 'fedprox,mu=0.1,training.lr=0.05'."""
    seeds: list[int] = Field(default=[0, 1, 2], min_length=1)

    @field_validator("seeds", mode="before")
    @classmethod
    def _count(cls, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        if not 1 <= value <= 1000:
            raise ValueError("the number of seeds must be between 1 and 1000")
        return list(range(value))

    @field_validator("algorithms", "seeds")
    @classmethod
    def _once(cls, value: list[Any]) -> list[Any]:
        if len(set(value)) < len(value):
            raise ValueError("each may be named once only")
        return value


@dataclass(frozen=True)
class PlannedRun:
    label: str
    seed: int
    config: RunConfig
    folder: RunFolder


LONGEST = 120
"""Characters of a folder's name; file systems stop at 255, paths on Windows at 260."""


def safe(name: str) -> str:
    """As the name of a folder."""
    clean = re.sub(r"[^A-Za-z0-9+.,=_-]", "_", name)
    if len(clean) <= LONGEST:
        return clean
    return f"{clean[: LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def plan_run(
    tables: Mapping[str, Any],
    label: str,
    seed: int,
    path: Path,
    source: str,
    own: Sequence[str] = (),
) -> PlannedRun:
    """A run of the algorithm that a label names, in a folder of its own.

    `own` has further settings that make it another run than the label alone.
    """
    name, *assignments = split_commas(label)
    chosen = {**tables, "seed": seed, "algorithm": {"name": name}}
    scoped = [_scoped(a, label) for a in assignments]
    config = load_config(chosen, [*scoped, *own], source=f"{source}, {label}")
    folder = path / safe(",".join([label, *own])) / f"seed-{seed}"
    return PlannedRun(label, seed, config, RunFolder(folder))


def _scoped(assignment: str, label: str) -> str:
    """A setting of the algorithm, unless it is one of training."""
    section = assignment.partition(".")[0]
    if section in COMMON:
        raise ConfigError(
            f"{label}: {section} must be the same for all algorithms of a comparison; "
            f"change it for all with --set {assignment}"
        )
    return assignment if section in ("training", "algorithm") else f"algorithm.{assignment}"


class Comparison:
    """A folder of run folders, one for each algorithm and seed."""

    def __init__(self, tables: Mapping[str, Any], path: Path, source: str = "config") -> None:
        self.path = path
        self.tables = dict(tables)
        try:
            self.config = CompareConfig.model_validate(self.tables.get("compare", {}))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(p) for p in ("compare", *first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise ConfigError(f"{source}: {where}: {message}") from error
        table = self.tables.get("algorithm", {})  # or a name alone, which says nothing here
        if ignored := sorted(table.keys() - {"name"}) if isinstance(table, Mapping) else []:
            raise ConfigError(
                f"{source}: a comparison does not use the settings in [algorithm] ({ignored[0]}); "
                f"give them with each algorithm, such as -a fedfor,{ignored[0]}=..."
            )
        self.runs = [
            plan_run(self.tables, label, seed, self.path / "runs", source)
            for seed in self.config.seeds
            for label in self.config.algorithms
        ]
        if len({run.folder.path for run in self.runs}) < len(self.runs):
            raise ConfigError(f"{source}: two algorithms would write to one folder; name one apart")

    @property
    def saved_path(self) -> Path:
        return self.path / "compare.toml"

    @classmethod
    def saved(cls, path: Path) -> "Comparison":
        """The comparison that a folder holds."""
        saved = path / "compare.toml"
        return cls(read_toml(str(saved)), path, source=str(saved))

    def workers(self, asked: int | None) -> int:
        """As many as asked for, or as the last time, since rounding can depend on who shares one;
        else one for each core, or for a GPU."""
        path = self.path / "workers"
        if asked is None and path.is_file() and path.read_text().strip().isdigit():
            asked = int(path.read_text())
        if asked is None:
            asked = 1 if self.first.device != "cpu" else os.cpu_count() or 1
        write_atomically(path, f"{asked}\n".encode())
        return max(1, asked)

    def create(self) -> None:
        """Make the folder, or go on in it if it holds just this comparison."""
        self.require_same()
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.saved_path, self._content())

    def require_same(self) -> None:
        """Refuse a folder that holds something else."""
        if self.saved_path.is_file():
            if self.saved_path.read_bytes() != self._content():
                raise FolderError(
                    f"{self.path} holds another comparison; choose another folder with --out, or "
                    f"go on with it by 'fedfor resume {self.path}'"
                )
        elif occupied(self.path):
            raise FolderError(f"{self.path} is not empty; choose another folder with --out")

    def _content(self) -> bytes:
        compare = self.config.model_dump(mode="json")
        return tomli_w.dumps({**self.tables, "compare": compare}).encode()

    @property
    def first(self) -> RunConfig:
        """What all runs have in common: any run's rounds, target and data."""
        return self.runs[0].config

    def results(self) -> "list[AlgorithmResult]":
        """What came of each algorithm, in the order asked for."""
        return [
            AlgorithmResult(label, [r for r in self.runs if r.label == label])
            for label in self.config.algorithms
        ]


class Summaries:
    """The summaries of one algorithm's finished runs, of so many that were planned."""

    def __init__(self, label: str, summaries: Sequence[dict[str, Any]], planned: int) -> None:
        self.label, self.summaries, self.planned = label, list(summaries), planned

    @property
    def diverged(self) -> int:
        return sum("diverged" in s for s in self.summaries)

    def spread(self, metric: str) -> Spread:
        return self._spread(lambda summary: summary.get(metric))

    def domain_spread(self, domain: str) -> Spread:
        return self._spread(lambda summary: summary.get("domains", {}).get(domain))

    def participation_spread(self, key: str) -> Spread:
        return self._spread(lambda summary: summary.get("participation", {}).get(key))

    def _spread(self, value: Callable[[dict[str, Any]], float | None]) -> Spread:
        """One value a seed. A run that diverged has none, and so no mean is left to flatter it."""
        return Spread(tuple(None if "diverged" in s else value(s) for s in self.summaries))


class AlgorithmResult(Summaries):
    """The finished runs of one algorithm of a comparison."""

    def __init__(self, label: str, runs: Sequence[PlannedRun]) -> None:
        ended = [(run, s) for run in runs if (s := run.folder.summary()) is not None]
        super().__init__(label, [summary for _, summary in ended], len(runs))
        self.runs = [run for run, _ in ended]

    def records(self) -> list[list[Record]]:
        return [run.folder.records() for run in self.runs]


def split_commas(text: str) -> list[str]:
    """The parts between commas, but for commas inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def with_assignments(tables: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """What --set says, for all runs of a comparison."""
    for assignment in assignments:
        key = assignment.partition("=")[0].strip()
        if key.split(".")[0] == "algorithm":
            setting = assignment.partition(".")[2] or "alpha=3"
            raise ConfigError(
                f"--set {assignment}: in a comparison, settings go with the algorithm they are of: "
                f"-a NAME,{setting}"
            )
        if key == "seed":
            raise ConfigError(f"--set {assignment}: in a comparison, use --seeds")
        set_value(tables, assignment)
    return tables
