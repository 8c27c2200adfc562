"""What came of a study, in one small file: every cell's figures, and what made them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from ..errors import FolderError
from ..experiments.config import Section
from ..experiments.folder import RunFolder, write_atomically
from ..experiments.metrics import METRICS, Spread, evaluated, late_accuracy
from .study import Cell, Study, told


class Outcome(Section):
    """One run of a study: a method, at a point, with a seed."""

    point: str
    row: str
    seed: int
    algorithm: str
    epochs: int
    rounds: int
    half: int
    metrics: dict[str, FiniteFloat | None]
    accuracy: tuple[FiniteFloat, ...]
    """In % after each evaluated round."""
    made: int
    """Which of `Results.made` says how."""
    diverged: bool = False
    at: tuple[int, ...] = ()
    """The rounds that were evaluated, where that is not each."""
    shifts: tuple[int, ...] = ()
    """The rounds at whose start a concept shifted."""

    @model_validator(mode="after")
    def _late(self) -> Self:
        """Of files from before it was among the metrics."""
        late = late_accuracy(self.curve, self.rounds)
        if "late" not in self.metrics and late is not None:
            self.metrics["late"] = late / 100
        return self

    @property
    def curve(self) -> dict[int, float]:
        """The accuracy by round."""
        return dict(zip(self.at or range(1, len(self.accuracy) + 1), self.accuracy, strict=False))

    @property
    def key(self) -> tuple[str, str, int]:
        return self.point, self.row, self.seed


class Results(Section):
    study: Study
    made: list[dict[str, Any]] = Field(default_factory=list)
    """The command, commit, device and versions that outcomes came from."""
    notes: list[str] = Field(default_factory=list)
    """What must be said of the data."""
    cells: list[Outcome] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Points and rows as the study has them, seeds rising."""
        points = [point.name for point in self.study.points]
        rows = [row.name for row in self.study.rows]
        for o in self.cells:
            if o.point not in points or o.row not in rows or not 0 <= o.made < len(self.made):
                raise ValueError(f"the study has nothing like {o.row} at {o.point}")
        if len({o.key for o in self.cells}) < len(self.cells):
            raise ValueError("a run is there twice")
        self.cells.sort(key=lambda o: (points.index(o.point), rows.index(o.row), o.seed))
        return self

    @property
    def points(self) -> list[str]:
        return list(dict.fromkeys(o.point for o in self.cells))

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(o.row for o in self.cells))

    def of(self, point: str, row: str) -> list[Outcome]:
        """All seeds of a cell."""
        return [o for o in self.cells if (o.point, o.row) == (point, row)]

    def spread(self, point: str, row: str, metric: str) -> Spread:
        """One value a seed; none where it diverged, so that no mean is left to flatter it.

        A seed that has no such figure, as without a shift to recover from, does not count.
        """
        of_cell = [o for o in self.of(point, row) if o.diverged or metric in o.metrics]
        return Spread(tuple(None if o.diverged else o.metrics[metric] for o in of_cell))

    @property
    def seconds(self) -> float:
        """What the device was busy for, of all outcomes together."""
        return sum(o.metrics.get("seconds") or 0.0 for o in self.cells)

    def merged(self, other: "Results") -> "Results":
        """Both together; where both have a cell, the other's."""
        study = self.study.joined(other.study)
        made = list(self.made)
        made += [m for m in other.made if m not in made]
        theirs = {o.key for o in other.cells}
        kept = [o for o in self.cells if o.key not in theirs]
        moved = [o.model_copy(update={"made": made.index(other.made[o.made])}) for o in other.cells]
        notes = list(dict.fromkeys([*self.notes, *other.notes]))
        return Results(study=study, made=made, notes=notes, cells=[*kept, *moved])

    def save(self, path: Path) -> None:
        """To a file of one line a cell, so that changes to it can be read."""
        cells = [o.model_dump(mode="json", exclude_defaults=True) for o in self.cells]
        lines = ",\n".join("  " + json.dumps(cell) for cell in cells)
        study = self.study.model_dump(mode="json", exclude_none=True)
        head = json.dumps({"study": study, "notes": self.notes, "made": self.made}, indent=1)
        text = f'{head.rstrip()[:-1].rstrip()},\n "cells": [\n{lines}\n ]\n}}\n'
        write_atomically(path, text.encode())


def gather(study: Study, cells: Sequence[Cell]) -> Results:
    """From the folders of the cells that have ended."""
    made: list[dict[str, Any]] = []
    notes: list[str] = []
    outcomes = []
    for cell in cells:
        summary = cell.folder.summary()
        if summary is None:
            continue
        about = _about(cell.folder)
        if about not in made:
            made.append(about)
        notes += [n for n in summary.get("notes", ()) if n not in notes]
        records = cell.folder.records()
        tested = evaluated(records)
        at = tuple(r["round"] for r in tested)
        outcomes.append(
            Outcome(
                point=cell.point,
                row=cell.label,
                seed=cell.seed,
                algorithm=cell.folder.path.parent.name,
                epochs=cell.config.training.epochs,
                rounds=cell.config.rounds,
                half=cell.config.half,
                metrics={name: summary[name] for name in METRICS if name in summary},
                accuracy=tuple(round(100 * r["accuracy"], 2) for r in tested),
                made=made.index(about),
                diverged="diverged" in summary,
                at=() if at == tuple(range(1, len(at) + 1)) else at,
                shifts=tuple(r["round"] for r in records if "shift" in r),
            )
        )
    return Results(study=study, made=made, notes=notes, cells=outcomes)


def load_results(paths: Iterable[Path]) -> Results:
    """One file, or several of the same study."""
    loaded: Results | None = None
    for path in paths:
        one = _load(path / RESULTS if path.is_dir() else path)
        loaded = one if loaded is None else loaded.merged(one)
    if loaded is None:
        raise FolderError("no results were named")
    return loaded


def _load(path: Path) -> Results:
    try:
        return Results.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        if path.name == RESULTS and (path.parent / "compare.toml").is_file():
            raise FolderError(
                f"{path.parent} is a comparison, and its table is {path.parent / 'table.md'}; this "
                "command is for folders and files of 'fedfor reproduce'"
            ) from error
        raise FolderError(
            f"there are no results in {path}; make some with 'fedfor reproduce'"
        ) from error
    except (OSError, ValidationError) as error:
        what = told(error) if isinstance(error, ValidationError) else error
        raise FolderError(f"{path} holds no results of 'fedfor reproduce' ({what})") from error


RESULTS = "results.json"
MADE = "made.json"


def _about(folder: RunFolder) -> dict[str, Any]:
    """What made a run: the command and commit, then versions and device."""
    found: dict[str, Any] = {}
    for name in (MADE, "environment.json"):
        path = folder.path / name
        found |= json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {k: v for k, v in found.items() if k != "together"}
