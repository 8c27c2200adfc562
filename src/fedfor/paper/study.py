"""A study: rows (methods) x points (local epochs, or what else is varied) x seeds."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from ..errors import ConfigError, nearest
from ..experiments.comparison import PlannedRun, plan_run, split_commas
from ..experiments.config import Section
from ..experiments.load import set_value

Tables = Mapping[str, Any]


class Row(Section):
    """A method of the table."""

    name: str
    """As the table shows it."""
    algorithm: str
    """As `fedfor compare -a` takes it: a name and settings."""
    paper: str | None = None
    """What the paper calls it, where it has this row."""


class Point(Section):
    """One value of what is varied: a column, or a group of columns, of the table."""

    name: str
    epochs: int = Field(ge=1)
    rounds: int = Field(ge=1)
    half: int | None = Field(default=None, ge=1)
    set: tuple[str, ...] = ()
    """What else is different here, as `--set` takes it."""

    @property
    def assignments(self) -> list[str]:
        half = [] if self.half is None else [f"evaluation.half={self.half}"]
        return [f"training.epochs={self.epochs}", f"rounds={self.rounds}", *half, *self.set]


class Study(Section):
    name: str
    title: str
    table: str | None = None
    """The paper's table, by its key in tables.json."""
    metrics: tuple[str, ...] = ("best_half", "best")
    figure: Literal["curves", "sweep", "chances", "bytes"] = "curves"
    """What its picture shows."""
    seeds: tuple[int, ...] = (0, 1, 2)
    points: list[Point] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    config: dict[str, Any]
    """What all runs have in common, as a config file has it."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for kind, names in (
            ("rows", [row.name for row in self.rows]),
            ("points", [point.name for point in self.points]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{kind}: each name may be used once only")
        return self

    def with_epochs(self, epochs: Sequence[int]) -> "Study":
        """Only the points with these numbers of local epochs."""
        known = sorted({point.epochs for point in self.points})
        for wanted in epochs:
            if wanted not in known:
                raise ConfigError(f"--epochs {wanted}: {self.name} has {_listed(known)}")
        points = [point for point in self.points if point.epochs in epochs]
        return self.model_copy(update={"points": points})

    def with_algorithms(self, wanted: Sequence[str]) -> "Study":
        """Only these rows, by name or by algorithm; what is no row becomes one."""
        rows = [self._row(label) for text in wanted for label in labels(text)]
        return self.model_copy(update={"rows": rows})

    def _row(self, label: str) -> Row:
        for row in self.rows:
            if label.lower() in (row.name.lower(), row.algorithm, row.algorithm.split(",")[0]):
                return row
        return Row(name=label, algorithm=label)

    def joined(self, other: "Study") -> "Study":
        """With the points and rows of both."""
        points = {p.name: p for p in (*self.points, *other.points)}
        rows = {r.name: r for r in (*self.rows, *other.rows)}
        update = {"points": list(points.values()), "rows": list(rows.values())}
        return self.model_copy(update=update)

    def cells(self, path: Path, seeds: Sequence[int], assignments: Sequence[str]) -> list["Cell"]:
        """All runs, those of a point side by side, and of these those of a seed."""
        found = []
        for point in self.points:
            tables = _copy(self.config)
            for assignment in (*point.assignments, *assignments):
                set_value(tables, assignment)
            for seed in seeds:
                for row in self.rows:
                    run = plan_run(tables, row.algorithm, seed, path / safe(point.name), self.name)
                    found.append(Cell(row.name, seed, run.config, run.folder, point.name))
        return found


@dataclass(frozen=True)
class Cell(PlannedRun):
    """A run of a study. Its label is the row's name."""

    point: str


def labels(text: str) -> list[str]:
    """Algorithms from a list with commas, where `name=value` belongs to the one before it."""
    found: list[str] = []
    for part in split_commas(text):
        if "=" in part and found:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def safe(name: str) -> str:
    """As the name of a folder."""
    return re.sub(r"[^A-Za-z0-9+.,=_-]", "_", name)


def study_names() -> list[str]:
    folder = files("fedfor.paper").joinpath("studies")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_study(name: str) -> Study:
    """One of the paper's, or a TOML file of one's own."""
    path = Path(name)
    if name in study_names():
        text = files("fedfor.paper").joinpath("studies", f"{name}.toml").read_text(encoding="utf-8")
    elif path.suffix == ".toml" and path.is_file():
        text = path.read_text(encoding="utf-8-sig")
    else:
        raise ConfigError(f"there is no study '{name}'; {nearest(name, study_names())}")
    try:
        return Study.model_validate({"name": path.stem, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{name}: {where}: {first['msg']}") from error


def _copy(tables: Tables) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in tables.items()}


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
