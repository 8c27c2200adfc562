"""A study: rows (methods) x points (local epochs, or what else is varied) x seeds."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ..errors import ConfigError, nearest
from ..experiments.comparison import PlannedRun, plan_run, safe, split_commas
from ..experiments.config import Section
from ..experiments.load import parse_value, set_value
from ..experiments.metrics import METRICS
from .numbers import methods

Tables = Mapping[str, Any]


def _folder_name(value: str) -> str:
    if not value.strip() or safe(value) in (".", ".."):
        raise ValueError("a name needs letters or numbers")
    return value


Name = Annotated[str, AfterValidator(_folder_name)]

OWN = ("population", "training", "model")
"""Sections of which a row may have settings of its own."""


def _on_fedbn(row: "Row") -> bool:
    return "fedbn" in row.algorithm.partition(",")[0].split("+")


def _section(key: str) -> str:
    return key.strip().partition(".")[0]


class Row(Section):
    """A method of the table."""

    name: Name
    """As the table shows it."""
    algorithm: Name
    """As `fedfor compare -a` takes it: a name and settings."""
    paper: str | None = None
    """What the paper calls it, where it has this row."""
    set: tuple[str, ...] = ()
    """What else is different here, as `--set` takes it."""

    @field_validator("set")
    @classmethod
    def _own(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Not what the table says of all rows, or what the row says elsewhere."""
        for assignment in value:
            key, equals, _ = assignment.partition("=")
            if not equals or not key.strip():
                raise ValueError(f"'{assignment}' is not written as section.key=value")
            if key.strip() in ("training", "training.epochs") or _section(key) not in OWN:
                raise ValueError(f"'{key.strip()}' cannot be another for one row")
        return tuple(sorted(value))

    def sets(self, key: str) -> bool:
        """Whether it has this setting, or a part of it, as its own."""
        mine = [assignment.partition("=")[0].strip() for assignment in self.set]
        return any(f"{m}.".startswith(f"{key}.") or f"{key}.".startswith(f"{m}.") for m in mine)


class Point(Section):
    """One value of what is varied: a column, or a group of columns, of the table."""

    name: Name
    epochs: int = Field(ge=1)
    rounds: int = Field(ge=1)
    half: int | None = Field(default=None, ge=1)
    set: tuple[str, ...] = ()
    """What else is different here, as `--set` takes it."""

    @property
    def assignments(self) -> list[str]:
        half = [] if self.half is None else [f"evaluation.half={self.half}"]
        return [f"training.epochs={self.epochs}", f"rounds={self.rounds}", *half, *self.set]

    def with_setting(self, key: str, value: Any) -> "Point":
        """As `--set` changes it, which goes before what the study says."""
        if key == "rounds":
            half = None if self.half is None or self.half > value else self.half
            return self.model_copy(update={"rounds": value, "half": half})
        if key == "evaluation.half":
            return self.model_copy(update={"half": value})
        kept = tuple(a for a in self.set if a.partition("=")[0].strip() != key)
        return self.model_copy(update={"set": kept})


class Study(Section):
    name: Name
    title: str
    table: str | None = None
    """The paper's table, by its key in tables.json."""
    metrics: tuple[str, ...] = ("best_half", "best")
    figure: Literal["curves", "sweep", "chances", "bytes"] = "curves"
    """What its picture shows."""
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    points: list[Point] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    config: dict[str, Any]
    """What all runs have in common, as a config file has it."""
    changed: tuple[str, ...] = ()
    """What `--set` made different from the study as it is written."""

    @model_validator(mode="after")
    def _names(self) -> Self:
        for kind, names in (
            ("rows", [row.name for row in self.rows]),
            ("points", [point.name for point in self.points]),
            ("seeds", [str(seed) for seed in self.seeds]),
            ("the folders of points", [safe(point.name) for point in self.points]),
            ("the algorithms of rows", [safe(",".join((r.algorithm, *r.set))) for r in self.rows]),
        ):
            if twice := next((n for n in names if names.count(n) > 1), None):
                raise ValueError(f"{kind}: '{twice}' is there twice")
        if unknown := next((m for m in self.metrics if m not in METRICS), None):
            raise ValueError(f"metrics: there is no '{unknown}'; {nearest(unknown, METRICS)}")
        return self

    @model_validator(mode="after")
    def _of_the_paper(self) -> Self:
        known = None if self.table is None else methods(self.table)
        if self.table is not None and known is None:
            raise ValueError(f"table: the paper has no '{self.table}'")
        for row in self.rows:
            if known is not None and row.paper is not None and row.paper not in known:
                raise ValueError(f"rows: the paper's table has no '{row.paper}'")
        if self.figure == "chances":
            for point in self.points:
                point_chance(point.name)
        return self

    def with_epochs(self, epochs: Sequence[int]) -> "Study":
        """Only the points with these numbers of local epochs.

        A study that does not vary them can be had with any.
        """
        known = sorted({point.epochs for point in self.points})
        if len(known) == 1 and len(self.points) > 1:
            points = [
                point.model_copy(update={"epochs": e, "name": _with_epochs(point.name, e, epochs)})
                for e in epochs
                for point in self.points
            ]
            return self._with(points=points)
        for wanted in epochs:
            if wanted not in known:
                raise ConfigError(
                    f"--epochs {wanted}: {self.name} has {', '.join(map(str, known))}"
                )
        return self._with(points=[point for point in self.points if point.epochs in epochs])

    def with_algorithms(self, wanted: Sequence[str]) -> "Study":
        """Only these rows, by name or by algorithm; what is no row becomes one."""
        rows = []
        for text in wanted:
            names = [text] if self._rows(text) else labels(text)
            for name in names:
                rows += self._rows(name) or [Row(name=name, algorithm=name)]
        if not rows:
            raise ConfigError("--algorithms: name at least one")
        return self._with(rows=rows)

    def lacking_backbone(self, rows: Sequence[Row]) -> list[str]:
        """A sentence for each of these rows that shares batch norm where none of the study does."""
        if not all(_on_fedbn(row) for row in self.rows):
            return []
        found = []
        for row in rows:
            if not _on_fedbn(row):
                name, *settings = split_commas(row.algorithm)
                with_it = ",".join([f"{name}+fedbn", *settings])
                found.append(
                    f"{row.name}: all rows of {self.name} keep batch norm on the clients, and this "
                    f"one does not; for that, -a {with_it}"
                )
        return found

    def with_seeds(self, seeds: int | Sequence[int]) -> "Study":
        """So many, or these."""
        if isinstance(seeds, int):
            if not 1 <= seeds <= 1000:
                raise ConfigError(
                    f"--seeds {seeds}: write a count from 1 to 1000, or a list: 0,1,2"
                )
            seeds = range(seeds)
        return self._with(seeds=tuple(seeds))

    def _rows(self, label: str) -> list[Row]:
        """The row of this name, else all with this algorithm."""
        named = [row for row in self.rows if label.lower() == row.name.lower()]
        return named or [
            row for row in self.rows if label in (row.algorithm, row.algorithm.split(",")[0])
        ]

    def with_settings(self, assignments: Sequence[str]) -> "Study":
        """With what `--set` says, for all runs."""
        config, points, changed = _copy(self.config), self.points, list(self.changed)
        for assignment in assignments:
            set_value(config, assignment)  # refuses what is no assignment
            key, _, text = (part.strip() for part in assignment.partition("="))
            if key in ("training.epochs", "seed") or key.split(".")[0] in ("algorithm", "compare"):
                option = {"training.epochs": "--epochs", "seed": "--seeds"}.get(key, "-a")
                raise ConfigError(f"--set {assignment}: in a study, use {option}")
            if (row := next((row for row in self.rows if row.sets(key)), None)) is not None:
                raise ConfigError(
                    f"--set {assignment}: '{row.name}' has {', '.join(row.set)} of its own; "
                    "choose other rows with -a"
                )
            value = parse_value(text)
            if key in ("rounds", "evaluation.half"):
                if not isinstance(value, int) or value < 1:
                    raise ConfigError(f"--set {assignment}: it must be a whole number above 0")
                _forget(config, key)
            points = [point.with_setting(key, value) for point in points]
            changed.append(assignment)
        return self._with(config=config, points=points, changed=tuple(changed))

    def _with(self, **changes: Any) -> "Study":
        try:
            return Study.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise ConfigError(f"{self.name}: {told(error)}") from error

    def joined(self, other: "Study") -> "Study":
        """With the points and rows of both, which must mean the same in both.

        In the other's order, if it has all of these.
        """
        points = {p.name: p for p in self.points}
        rows = {r.name: r for r in self.rows}
        same = self.config == other.config
        same &= all(points.setdefault(p.name, p) == p for p in other.points)
        same &= all(rows.setdefault(r.name, r) == r for r in other.rows)
        if self.name != other.name or not same:
            raise ConfigError(
                f"results of {self.name} ({_changes(self)}) and of {other.name} "
                f"({_changes(other)}) do not go together"
            )
        seeds = tuple(dict.fromkeys((*self.seeds, *other.seeds)))
        return self._with(
            points=list(points.values()) if len(points) > len(other.points) else other.points,
            rows=list(rows.values()) if len(rows) > len(other.rows) else other.rows,
            seeds=seeds,
        )

    def cells(self, path: Path, how: Sequence[str] = ()) -> list["Cell"]:
        """All runs, those of a point side by side, and of these those of a seed.

        `how` has further settings that change nothing but where and how fast it is run.
        """
        found = []
        for point in self.points:
            tables = _copy(self.config)
            for assignment in (*point.assignments, *how):
                set_value(tables, assignment)
            for seed in self.seeds:
                for row in self.rows:
                    at = path / safe(point.name)
                    run = plan_run(tables, row.algorithm, seed, at, self.name, row.set)
                    found.append(Cell(row.name, seed, run.config, run.folder, point.name))
        return found


def point_chance(name: str) -> float:
    """The number that the name of a point ends in."""
    try:
        return float(name.split()[-1])
    except ValueError as error:
        raise ValueError(f"points: '{name}' must end in a number to be drawn") from error


def _with_epochs(name: str, epochs: int, among: Sequence[int]) -> str:
    return f"{name}, E={epochs}" if len(among) > 1 else name


def _changes(study: Study) -> str:
    return ", ".join(study.changed) or "as it is"


def _forget(config: dict[str, Any], key: str) -> None:
    """Points have it."""
    *path, last = key.split(".")
    table = config
    for part in path:
        table = table[part]
    del table[last]


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
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name} is no text in UTF-8: {error}") from error
    else:
        raise ConfigError(f"there is no study '{name}'; {nearest(name, study_names())}")
    try:
        return Study.model_validate({"name": path.stem, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{name}: {told(error)}") from error


def told(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _copy(tables: Tables) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in tables.items()}
