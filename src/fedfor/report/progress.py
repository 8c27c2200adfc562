"""Progress: bars on a terminal, plain lines elsewhere."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from ..experiments.compare import Ended
from ..experiments.comparison import PlannedRun
from ..experiments.config import RunConfig
from ..experiments.folder import RunFolder
from ..experiments.metrics import best_accuracy
from ..experiments.run import OnRound
from ..experiments.simulation import Record

BESTS = ("best_half", "best")


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
    )


def _accuracy(record: Record | None) -> str:
    return f"{100 * record['accuracy']:5.1f} %" if record and "accuracy" in record else "      -"


def outcome(summary: Mapping[str, Any], config: RunConfig) -> str:
    """How a run ended, in a few words."""
    half, best = ("-" if (v := summary.get(k)) is None else f"{100 * v:.1f} %" for k in BESTS)
    first = f"{half} by round {config.half}, " if config.half < config.rounds else ""
    words = f"best accuracy {first}{best} by round {config.rounds}"
    if config.evaluation.target is not None:
        reached = summary.get("rounds_to_target")
        words += f"; {100 * config.evaluation.target:g} % "
        words += f"in round {reached}" if reached else "never reached"
    if abandoned := summary.get("participation", {}).get("abandoned"):
        words += f"; {abandoned} of {summary['rounds']} rounds were abandoned"
    return words


@contextmanager
def show_run(console: Console, name: str, done: int, rounds: int) -> Iterator[OnRound]:
    """Follow one run round by round."""
    if console.is_terminal:
        with _bars(console) as bars:
            task = bars.add_task(name, total=rounds, completed=done, accuracy=_accuracy(None))

            def advance(record: Record) -> None:
                bars.update(task, completed=record["round"])
                if "accuracy" in record:
                    bars.update(task, accuracy=_accuracy(record))

            yield advance
        return
    began = time.monotonic()
    every = max(1, rounds // 20)
    rounds_here = 0

    def line(record: Record) -> None:
        nonlocal rounds_here
        t, rounds_here = record["round"], rounds_here + 1
        if t % every == 0 or t == rounds:
            left = (time.monotonic() - began) / rounds_here * (rounds - t)
            words = [name, f"round {t}/{rounds}", f"accuracy {_accuracy(record).strip()}"]
            console.print("  ".join([*words, f"{left:.0f} s left"]), soft_wrap=True, markup=False)

    yield line


class RunsProgress:
    """Follows many runs by reading their folders: a bar for each group of them."""

    def __init__(
        self,
        console: Console,
        runs: Sequence[PlannedRun],
        group: Callable[[PlannedRun], str] = lambda run: run.label,
    ) -> None:
        self.console, self.runs, self.group = console, runs, group
        self.ended = sum(run.folder.summary() is not None for run in runs)
        self._tasks: dict[str, TaskID] = {}
        self._seen: dict[Path, tuple[int, list[Record]]] = {}
        self._bars: Progress | None = None
        self._quarters = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with _bars(self.console) as self._bars:
            for group in dict.fromkeys(map(self.group, self.runs)):
                total = sum(r.config.rounds for r in self.runs if self.group(r) == group)
                task = self._bars.add_task(group, total=total, accuracy=_accuracy(None))
                self._tasks[group] = task
            self.tick()
            yield
            self.tick()

    def tick(self) -> None:
        if self._bars is None:
            self._tell_quarters()
            return
        for group, task in self._tasks.items():
            runs = [self._records(r.folder) for r in self.runs if self.group(r) == group]
            last = [r["accuracy"] for records in runs for r in records[-1:] if "accuracy" in r]
            shown = f"{100 * sum(last) / len(last):5.1f} %" if last else _accuracy(None)
            self._bars.update(task, completed=sum(map(len, runs)), accuracy=shown)

    def _tell_quarters(self) -> None:
        """Where there are no bars: a line at each quarter of all rounds but the last."""
        total = sum(run.config.rounds for run in self.runs)
        done = sum(len(self._records(run.folder)) for run in self.runs)
        if self._quarters < 4 * done // total < 4:
            self._quarters = 4 * done // total
            self.console.print(f"{done} of {total} rounds", highlight=False)

    def _records(self, folder: RunFolder) -> list[Record]:
        """Read again only what has grown."""
        path = folder.rounds_path
        size = path.stat().st_size if path.is_file() else 0
        if path not in self._seen or self._seen[path][0] != size:
            self._seen[path] = (size, folder.records())
        return self._seen[path][1]

    def end(self, ended: Ended) -> None:
        self.ended += 1
        groups = dict.fromkeys((self.group(ended.run), ended.run.label))  # often the same
        what = ", ".join([*groups, f"seed {ended.run.seed}"])
        if ended.problem is not None:
            text = f"{what}: {ended.problem}"
            self.console.print(text, soft_wrap=True, markup=False, highlight=False)
        elif not self.console.is_terminal:
            records = ended.run.folder.records()
            best = best_accuracy(records, len(records)) or 0.0
            seconds = sum(r["seconds"] for r in records)
            count = f"({self.ended} of {len(self.runs)} runs)"
            text = f"{what}: best {100 * best:.1f} % in {seconds:.0f} s {count}"
            self.console.print(text, soft_wrap=True, markup=False, highlight=False)


def engine_of(runs: Sequence[PlannedRun]) -> str | None:
    """How the runs were trained, as they have recorded it."""
    found, known = [], 0
    for run in runs:
        with suppress(OSError, ValueError):
            path = run.folder.path / "environment.json"
            about = json.loads(path.read_text(encoding="utf-8"))
            known += 1
            found += [about] if about.get("engine") == "vector" else []
    if not found:
        return None
    who = "" if len(found) == known else f"{len(found)} of {known} runs were t"
    compiled = ", compiled" if found[0].get("compiled") else ""
    together = max(about.get("together", 0) for about in found)
    return (
        f"{who or 'T'}rained by the vector engine, up to {together} clients of all runs at a "
        f"time, in {found[0].get('precision')}{compiled}."
    )
