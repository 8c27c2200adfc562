"""What came of a study, in one small file: every cell's figures, and what made them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FolderError
from ..experiments.folder import RunFolder, write_atomically
from ..experiments.metrics import METRICS, Spread, evaluated
from .study import Cell, Study


@dataclass(frozen=True)
class Outcome:
    """One run of a study: a method, at a point, with a seed."""

    point: str
    row: str
    seed: int
    algorithm: str
    epochs: int
    rounds: int
    half: int
    metrics: dict[str, float | None]
    accuracy: tuple[float, ...]
    """In % after each evaluated round."""
    made: int
    """Which of `Results.made` says how."""
    diverged: bool = False
    shifts: tuple[int, ...] = ()
    """The rounds at whose start a concept shifted."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.point, self.row, self.seed


@dataclass
class Results:
    study: Study
    made: list[dict[str, Any]] = field(default_factory=list)
    """The command, commit, device and versions that outcomes came from."""
    notes: list[str] = field(default_factory=list)
    """What must be said of the data."""
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def points(self) -> list[str]:
        return list(dict.fromkeys(o.point for o in self.outcomes))

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(o.row for o in self.outcomes))

    def of(self, point: str, row: str) -> list[Outcome]:
        """All seeds of a cell."""
        return [o for o in self.outcomes if (o.point, o.row) == (point, row)]

    def spread(self, point: str, row: str, metric: str) -> Spread:
        """One value a seed; none where it diverged, so that no mean is left to flatter it."""
        return Spread(
            tuple(None if o.diverged else o.metrics.get(metric) for o in self.of(point, row))
        )

    @property
    def seconds(self) -> float:
        """What the device was busy for, of all outcomes together."""
        return sum(o.metrics.get("seconds") or 0.0 for o in self.outcomes)

    def merged(self, other: "Results") -> "Results":
        """Both together; where both have a cell, the other's."""
        if other.study.name != self.study.name:
            names = f"{self.study.name} and of {other.study.name}"
            raise FolderError(f"results of {names} do not go together")
        made = list(self.made)
        made += [m for m in other.made if m not in made]
        theirs = {o.key for o in other.outcomes}
        kept = [o for o in self.outcomes if o.key not in theirs]
        moved = [_made_by(o, made.index(other.made[o.made])) for o in other.outcomes]
        notes = list(dict.fromkeys([*self.notes, *other.notes]))
        return Results(self.study.joined(other.study), made, notes, [*kept, *moved]).in_order()

    def in_order(self) -> "Results":
        """Points and rows as the study has them, seeds rising."""
        points = [point.name for point in self.study.points]
        rows = [row.name for row in self.study.rows]
        self.outcomes.sort(key=lambda o: (points.index(o.point), rows.index(o.row), o.seed))
        return self

    def save(self, path: Path) -> None:
        """To a file of one line a cell, so that changes to it can be read."""
        cells = [_as_json(o) for o in self.outcomes]
        lines = ",\n".join("  " + json.dumps(cell) for cell in cells)
        study = self.study.model_dump(mode="json", exclude_none=True)
        head = json.dumps({"study": study, "notes": self.notes, "made": self.made}, indent=1)
        text = f'{head.rstrip()[:-1].rstrip()},\n "cells": [\n{lines}\n ]\n}}\n'
        write_atomically(path, text.encode())


def gather(study: Study, cells: Sequence[Cell], about: dict[str, Any]) -> Results:
    """From the folders of the cells that have ended."""
    results = Results(study)
    for cell in cells:
        summary = cell.folder.summary()
        if summary is None:
            continue
        made = {**about, **_environment(cell.folder)}
        if made not in results.made:
            results.made.append(made)
        results.notes += [n for n in summary.get("notes", ()) if n not in results.notes]
        records = cell.folder.records()
        curve = [round(100 * r["accuracy"], 2) for r in evaluated(records)]
        results.outcomes.append(
            Outcome(
                cell.point,
                cell.label,
                cell.seed,
                cell.folder.path.parent.name,
                cell.config.training.epochs,
                cell.config.rounds,
                cell.config.half,
                {name: summary[name] for name in METRICS if name in summary},
                tuple(curve),
                results.made.index(made),
                "diverged" in summary,
                tuple(r["round"] for r in records if "shift" in r),
            )
        )
    return results.in_order()


def load_results(paths: Iterable[Path]) -> Results:
    """One file, or several of the same study."""
    loaded: Results | None = None
    for path in paths:
        one = _load(path / "results.json" if path.is_dir() else path)
        loaded = one if loaded is None else loaded.merged(one)
    if loaded is None:
        raise FolderError("no results were named")
    return loaded


def _load(path: Path) -> Results:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        outcomes = [_outcome(cell) for cell in raw["cells"]]
        study = Study.model_validate(raw["study"])
        return Results(study, raw["made"], raw["notes"], outcomes).in_order()
    except FileNotFoundError as error:
        raise FolderError(
            f"there are no results in {path}; make some with 'fedfor reproduce'"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise FolderError(f"{path} holds no results of 'fedfor reproduce' ({first})") from error


def _outcome(cell: dict[str, Any]) -> Outcome:
    lists = {k: tuple(cell.get(k, ())) for k in ("accuracy", "shifts")}
    return Outcome(**{**cell, **lists})


def _environment(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / "environment.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {k: v for k, v in known.items() if k != "together"}


def _as_json(outcome: Outcome) -> dict[str, Any]:
    rare = ("diverged", "shifts")
    return {k: v for k, v in outcome.__dict__.items() if v or k not in rare}


def _made_by(outcome: Outcome, made: int) -> Outcome:
    return Outcome(**{**outcome.__dict__, "made": made})
