"""Runs to look at, wherever they lie: run folders, comparisons, studies, files of results."""

import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FedforError, FolderError
from ..experiments.comparison import safe
from ..experiments.folder import FLOWER, RunFolder
from ..experiments.metrics import late_accuracy
from ..experiments.simulation import Record
from ..paper.numbers import Reported
from ..paper.results import MADE, RESULTS, Outcome, Results, load_results
from ..paper.study import Study
from .presets import Preset, preset_of
from .sound import figures_so_far, number, sound_summary

DEEPEST = 6
"""Folders below one that was named in which runs are still looked for."""

Tables = dict[str, Any]


@dataclass(frozen=True)
class LoadedRun:
    """What is there of one run, whether it has ended or not."""

    path: Path
    label: str
    """Of its method, as the place says that it lies in; else the algorithm's name."""
    point: str
    """Of a study: which of the values that it varies. Else empty."""
    seed: int
    config: Tables
    records: list[Record]
    summary: dict[str, Any] | None = None
    """Once it has ended."""
    environment: Tables = field(default_factory=dict)
    cohort: Tables | None = None
    """The classes of the clients of its first round."""
    preset: Preset | None = None
    """The experiment of the paper that it repeats."""
    problems: tuple[str, ...] = ()
    """What could not be read of it."""
    only_curve: bool = False
    """From a file of results, which has the accuracies alone."""

    @property
    def on_flower(self) -> bool:
        return FLOWER in self.config

    @property
    def planned(self) -> int:
        """How many rounds it is to have, as far as it is known."""
        told = self.config.get(FLOWER, self.config).get("rounds")
        return told if isinstance(told, int) and told > 0 else len(self.records)

    @property
    def evaluation(self) -> Tables:
        found = self.config.get("evaluation", {})
        return found if isinstance(found, dict) else {}

    @property
    def half(self) -> int:
        told = self.evaluation.get("half")
        return told if isinstance(told, int) and told > 0 else max(1, self.planned // 2)

    @property
    def target(self) -> float | None:
        told = number(self.evaluation, "target")
        return told if told is not None and 0 < told <= 1 else None

    @property
    def state(self) -> str:
        if self.summary is None:
            return "unfinished"
        return "diverged" if "diverged" in self.summary else "done"

    @property
    def figures(self) -> dict[str, Any]:
        """Its summary; of one that has not ended, as if it had with the rounds that it has."""
        if self.summary is not None:
            return self.summary
        return figures_so_far(self.records, self.planned, self.half, self.target)

    def reported(self, metric: str) -> Reported | None:
        """The paper's number for it, where it asks what the paper asks."""
        if self.preset is None:
            return None
        return self.preset.reported(metric, self.half, self.target)


def load_runs(paths: Sequence[Path]) -> list[LoadedRun]:
    """All runs below these folders and in these files, each once, in the order they were named."""
    found: dict[object, LoadedRun] = {}
    for path in paths:
        if path.is_file():
            for run in from_results(load_results([path]), path):
                found.setdefault((run.path, run.point, run.label, run.seed), run)
        elif path.is_dir():
            for run in _in_folder(path):
                found.setdefault(run.path.resolve(), run)
        else:
            raise FolderError(f"there is no file or folder {path}")
    return list(found.values())


def run_folders(path: Path) -> Iterator[Path]:
    """The folders of runs at or below a folder. Links are not followed."""
    for where, below, files in os.walk(path):
        here = Path(where)
        if "config.toml" in files or "rounds.jsonl" in files:
            below.clear()
            yield here
        elif len(here.relative_to(path).parts) >= DEEPEST:
            below.clear()
        below[:] = sorted((b for b in below if not b.startswith(".")), key=_by_number)


def _by_number(name: str) -> list[object]:
    """seed-2 before seed-10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _in_folder(path: Path) -> list[LoadedRun]:
    places = Places(path)
    folders = list(run_folders(path))
    if folders:
        runs = [read_run(folder, places) for folder in folders]
        return sorted(runs, key=lambda run: places.rank(run.path))
    if (path / RESULTS).is_file():
        return from_results(load_results([path]), path / RESULTS)
    what = "is empty" if not any(path.iterdir()) else "holds no run: no rounds.jsonl is in it"
    raise FolderError(
        f"{path} {what}; name a folder that 'fedfor run', 'compare' or 'reproduce' wrote to, or "
        "that of a federation on Flower"
    )


class Places:
    """What comparisons and studies call the runs in their folders."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._known: dict[Path, dict[Path, tuple[str, str]]] = {}

    def name(self, folder: Path) -> tuple[str, str] | None:
        """The label and the point of the run in a folder."""
        for above in (*folder.parents,)[:DEEPEST]:
            if above not in self._known:
                self._known[above] = self._read(above)
            if (named := self._known[above].get(folder)) is not None:
                return named
        if (folder / MADE).is_file():  # of a study that is still without results
            return folder.parent.name, folder.parent.parent.name
        return None

    def rank(self, folder: Path) -> int:
        """Its place among the runs of its comparison or study, as that was asked for."""
        for known in self._known.values():
            if folder in known:
                return list(known).index(folder)
        return 0

    def _read(self, above: Path) -> dict[Path, tuple[str, str]]:
        try:
            if (above / "compare.toml").is_file():
                return _of_comparison(above)
            if (above / RESULTS).is_file():
                return _of_study(load_results([above]).study, above)
        except (FedforError, OSError, ValueError, KeyError, TypeError):
            pass  # damaged, or something else by that name: the runs can still be read
        return {}


def _of_comparison(path: Path) -> dict[Path, tuple[str, str]]:
    tables = tomllib.loads((path / "compare.toml").read_text(encoding="utf-8"))
    compare = tables["compare"]
    return {
        path / "runs" / safe(label) / f"seed-{seed}": (str(label), "")
        for label in compare["algorithms"]
        for seed in compare["seeds"]
    }


def _of_study(study: Study, path: Path) -> dict[Path, tuple[str, str]]:
    return {
        path / safe(point.name) / safe(",".join((row.algorithm, *row.set))) / f"seed-{seed}": (
            row.name,
            point.name,
        )
        for point in study.points
        for row in study.rows
        for seed in study.seeds
    }


def read_run(path: Path, places: Places | None = None) -> LoadedRun:
    """All that can be read of a run. It may be running, cut off or damaged."""
    folder, problems = RunFolder(path), list[str]()
    config = _toml(folder.config_path, problems)
    algorithm = config.get("algorithm", {})
    algorithm = algorithm if isinstance(algorithm, Mapping) else {"name": algorithm}
    named = None if places is None else places.name(path)
    label, point = named or (str(algorithm.get("name") or algorithm.get("label") or path.name), "")
    records = folder.records()
    if (more := _lines(folder.rounds_path) - len(records)) > 0:
        problems.append(f"{more} of its lines in rounds.jsonl are damaged or cut short")
    seed = config.get("seed")
    return LoadedRun(
        path,
        label,
        point,
        seed if isinstance(seed, int) else 0,
        config,
        records,
        _summary(folder, records, problems),
        _json(path / "environment.json", problems),
        _json(path / "cohort.json", problems) or None,
        preset_of(config),
        tuple(problems),
    )


def _summary(
    folder: RunFolder, records: Sequence[Record], problems: list[str]
) -> dict[str, Any] | None:
    """None while the run goes on. One that says less than the records do is of no use."""
    if not folder.summary_path.is_file():
        return None
    summary = folder.summary()
    if not isinstance(summary, dict):
        problems.append("its summary.json cannot be read")
        return None
    if summary.get("rounds") != len(records):
        told = f"of {summary.get('rounds')} rounds, and rounds.jsonl of {len(records)}"
        problems.append(f"its summary.json tells {told}")
        return None
    return sound_summary(summary, problems)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _toml(path: Path, problems: list[str]) -> Tables:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append("it has no config.toml")
    except (OSError, ValueError) as error:
        problems.append(f"its config.toml cannot be read ({error})")
    return {}


def _json(path: Path, problems: list[str]) -> Tables:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"its {path.name} cannot be read ({error})")
        return {}
    return found if isinstance(found, dict) else {}


def from_results(results: Results, path: Path) -> list[LoadedRun]:
    """The runs of a file of results: figures and curves, without all else that a folder has."""
    study = results.study
    papers = {row.name: row.paper for row in study.rows}
    configs, target = _configs(study), study.config.get("evaluation", {}).get("target")
    runs = []
    for one in results.cells:
        preset = Preset(study.table, papers[one.row], one.epochs, one.rounds, target)
        made = results.made[one.made]
        runs.append(
            LoadedRun(
                path,
                one.row,
                one.point,
                one.seed,
                configs[one.point, one.row],
                list(_records(one)),
                _metrics(one),
                made,
                preset=preset if preset.table and preset.method else None,
                only_curve=True,
            )
        )
    return runs


def _configs(study: Study) -> dict[tuple[str, str], Tables]:
    """The settings of each row at each point."""
    with warnings.catch_warnings(action="ignore"):  # of training, which is over
        cells = study.with_seeds(1).cells(Path())
    return {
        (cell.point, cell.label): cell.config.model_dump(mode="json", exclude_none=True)
        for cell in cells
    }


def _records(one: Outcome) -> Iterable[Record]:
    shifts = set(one.shifts)
    for t, accuracy in one.curve.items():
        yield {"round": t, "accuracy": accuracy / 100} | ({"shift": {}} if t in shifts else {})


def _metrics(one: Outcome) -> dict[str, Any]:
    told = {"diverged": f"diverged after round {max(one.curve, default=0)}"} if one.diverged else {}
    late = late_accuracy({t: a / 100 for t, a in one.curve.items()}, one.rounds)
    return {"rounds": max(one.curve, default=0), "late": late, **one.metrics, **told}
