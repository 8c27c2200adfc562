"""Tracking from Python: a run folder that something writes, or a simulation without one."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FolderError
from ..importing import told
from .names import known_trackers
from .tracking import Tracking, warn

if TYPE_CHECKING:
    from ..experiments.comparison import PlannedRun

Names = str | Sequence[str]


def follow(trackers: Names, *folders: str | Path) -> Tracking:
    """Track what is written into run folders, of Flower's ServerApps too, meanwhile.

        with fedfor.tracking.follow("tensorboard", "runs/digits"):
            strategy.start(grid, num_rounds=50)

    `trackers` are `tensorboard`, `wandb`, `mlflow` or a `package.module:Class`. Rounds that are
    there and were not tracked yet are told as well.
    """
    names = known_trackers([trackers] if isinstance(trackers, str) else trackers)
    return Tracking(names, [{"folder": str(Path(folder).absolute())} for folder in folders])


def follow_planned(
    trackers: Sequence[str],
    runs: "Sequence[PlannedRun]",
    again: str,
    within: Callable[["PlannedRun"], str] = lambda run: "",
) -> Tracking:
    """The runs of a comparison or a study. `within` says which part of it a run is of."""
    found = []
    for run in runs if trackers else ():
        words = [within(run), run.label, f"seed {run.seed}"]
        found.append(
            {
                "folder": str(run.folder.path.absolute()),
                "name": ", ".join(word for word in words if word),
                "group": run.label,
                "done": run.folder.summary() is not None,
            }
        )
    return Tracking(trackers, found, again)


@contextmanager
def track(
    trackers: Names, folder: str | Path, config: Mapping[str, Any] | None = None
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Track a simulation: the `on_round` that it gives writes records into a new folder.

        with fedfor.tracking.track("tensorboard", "runs/mine", {"lr": 0.05}) as on_round:
            fedfor.simulate("fedfor", clients, rounds=10, lr=0.05, on_round=on_round)

    A record of your own has at least its `round`.
    """
    from ..experiments.folder import RunFolder, occupied
    from ..experiments.metrics import best_accuracy

    written, path = RunFolder(Path(folder)), Path(folder)
    names = known_trackers([trackers] if isinstance(trackers, str) else trackers)
    if occupied(path):
        raise FolderError(f"{path} is not empty; choose another folder to track into")
    path.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    before = time.perf_counter()

    def on_round(record: Mapping[str, Any]) -> None:
        nonlocal before
        began, before = before, time.perf_counter()
        timed = {"seconds": round(before - began, 6), **record}
        with _told(written.rounds_path):
            written.append(timed)
            records.append(timed)
        tracking.tell()

    about = {"folder": str(path.absolute()), "config": dict(config or {})}
    with Tracking(names, [about]) as tracking:
        yield on_round
        with _told(written.summary_path):
            best = best_accuracy(records, max(r["round"] for r in records))
            written.finish({"rounds": len(records), "best": best}, None)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What cannot be written does not stop a simulation."""
    try:
        yield
    except (OSError, KeyError, TypeError, ValueError) as error:
        warn(f"{path} lacks something, and so do trackers: {told(error)}")
