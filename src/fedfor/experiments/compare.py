"""Run all runs of a comparison that are not done yet, several processes at a time."""

import functools
import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from ..engines.names import RAY
from ..errors import DivergedError, FedforError
from ..importing import told
from .build import Shared, Where, build_simulation
from .comparison import Comparison, PlannedRun
from .config import DataConfig
from .folder import RunFolder, locked, write_atomically
from .run import steps_in_folder
from .together import drive_together


@dataclass(frozen=True)
class Ended:
    """How a run ended, as its process tells it."""

    run: PlannedRun
    problem: str | None = None
    diverged: bool = False


def compare(
    comparison: Comparison,
    workers: int | None = None,
    on_end: Callable[[Ended], None] = lambda ended: None,
    on_tick: Callable[[], None] = lambda: None,
    engine: str | None = None,
) -> list[Ended]:
    """Run what is left to run. A run that diverges or fails does not stop the others.

    `workers` are processes, or of a Ray cluster, whose address may be given as `engine`.
    """
    left = [run for run in comparison.runs if run.folder.summary() is None]
    shared = Shared()  # a mistake stops everything before anything has run
    engines = [build_simulation(run.config, shared=shared).engine.name for run in left]
    comparison.create()
    with locked(comparison.path):
        for run in left:
            if not run.folder.config_path.is_file():
                run.folder.create(run.config)
        if RAY in engines:
            return run_bundles([left], 1, on_end, on_tick, Where(engine, workers))
        workers = max(1, min(comparison.workers(workers), len(left)))
        return run_bundles(_bundles(left, engines, workers), workers, on_end, on_tick)


def _bundles(left: list[PlannedRun], engines: list[str], workers: int) -> list[list[PlannedRun]]:
    """The runs that a process does together: those that share a stack; all others one by one."""
    stacked = [run for run, engine in zip(left, engines, strict=True) if engine == "vector"]
    alone = [run for run, engine in zip(left, engines, strict=True) if engine != "vector"]
    share = -(-len(stacked) // workers)
    shares = [stacked[i : i + share] for i in range(0, len(stacked), share or 1)]
    return shares + [[run] for run in alone]


def run_bundles(
    bundles: Sequence[Sequence[PlannedRun]],
    workers: int,
    on_end: Callable[[Ended], None],
    on_tick: Callable[[], None],
    where: Where | None = None,
) -> list[Ended]:
    """In several processes, each bundle's runs together in one of them."""
    # Spawned, so that a worker is a fresh interpreter on every system and with CUDA alike.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    ended: list[Ended] = []
    with ProcessPoolExecutor(workers, context, _watch_parent, (os.getpid(), stop)) as pool:
        waiting: set[Future[list[Ended]]] = {
            pool.submit(_run, runs, _rounds_to_come(bundles[place:]), where)
            for place, runs in enumerate(bundles)
        }
        try:
            while waiting:
                time.sleep(0.1)  # and not `wait`: an interrupt amid its locks breaks them
                done = {future for future in waiting if future.done()}
                waiting -= done
                for future in done:
                    for end in future.result():
                        ended.append(end)
                        on_end(end)
                on_tick()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return ended


def _rounds_to_come(bundles: Sequence[Sequence[PlannedRun]]) -> int:
    """The work of all, in rounds of the first: what is compiled for it serves the others."""
    first = bundles[0][0].config.training.epochs
    each = [runs[0].config for runs in bundles]
    return sum(c.rounds * c.training.epochs for c in each) // first


def _watch_parent(parent: int, stop: Event) -> None:
    """A worker ends when it is told to, or when the process that started it is gone.

    At once and without ceremony, as a run can be cut off anywhere; but a cluster is put away.
    """

    def watch() -> None:
        while os.getppid() == parent and not stop.is_set():
            time.sleep(0.2)
        if _clustered.is_set():
            os.kill(os.getpid(), signal.SIGTERM)  # which Ray turns into an exception
            _put_away.wait(PATIENCE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


PATIENCE = 60.0
"""Seconds that putting a cluster away may take."""

_clustered, _put_away = threading.Event(), threading.Event()


@functools.lru_cache(maxsize=1)
def _shared(data: DataConfig, like: str, where: Where | None) -> Shared:
    """Data and compiled programs outlast a bundle: the next is of the same kind, as a rule."""
    return Shared(where)


def _run(runs: Sequence[PlannedRun], rounds: int, where: Where | None = None) -> list[Ended]:
    """In a process of its own: these runs, in step."""
    warnings.simplefilter("ignore")  # the parent has built these configs and shown their warnings
    first = runs[0].config
    like = first.model_dump_json(include={"model", "device", "precision", "compile", "lanes"})
    shared, ended = _shared(first.data, like, where), dict[int, Ended]()
    shared.rounds = shared.rounds or rounds

    def end(place: int, outcome: object) -> None:
        problem = None
        if isinstance(outcome, FedforError):
            problem = str(outcome)
        elif isinstance(outcome, Exception):
            problem = _logged(runs[place], outcome)
        ended[place] = Ended(runs[place], problem, isinstance(outcome, DivergedError))

    steps = [
        steps_in_folder(
            RunFolder(run.folder.path), shared=shared, beside=lambda: len(runs) - len(ended)
        )
        for run in runs
    ]
    if where is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who then tells us
        _clustered.set()
    try:
        drive_together(steps, end)
    except Exception as error:
        for place, run in enumerate(runs):
            if place not in ended:
                ended[place] = Ended(run, _logged(run, error))
    finally:
        for step in steps:
            step.close()
        _clustered.clear()
        _put_away.set()
    return list(ended.values())


def _logged(run: PlannedRun, error: Exception) -> str:
    """What went wrong in a word, and in full in the run's folder, if that is still there."""
    log = run.folder.path / "error.txt"
    with suppress(OSError):
        write_atomically(log, "".join(traceback.format_exception(error)).encode())
    return f"{told(error)}; all of it is in {log}" if log.is_file() else told(error)
