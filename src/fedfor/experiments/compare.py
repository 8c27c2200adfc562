"""Run all runs of a comparison that are not done yet, several processes at a time."""

import multiprocessing
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from ..errors import DivergedError, FedforError
from ..importing import told
from .build import build_simulation
from .comparison import Comparison, PlannedRun
from .folder import RunFolder, locked, write_atomically
from .run import run_in_folder


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
) -> list[Ended]:
    """Run what is left to run. A run that diverges or fails does not stop the others."""
    left = [run for run in comparison.runs if run.folder.summary() is None]
    for run in left:
        if not run.folder.config_path.is_file():
            build_simulation(run.config)  # a mistake stops everything before anything has run
    comparison.create()
    with locked(comparison.path):
        for run in left:
            if not run.folder.config_path.is_file():
                run.folder.create(run.config)
        if workers is None:
            workers = 1 if comparison.first.device != "cpu" else os.cpu_count() or 1
        return _run_all(left, max(1, min(workers, len(left))), on_end, on_tick)


def _run_all(
    left: list[PlannedRun],
    workers: int,
    on_end: Callable[[Ended], None],
    on_tick: Callable[[], None],
) -> list[Ended]:
    # Spawned, so that a worker is a fresh interpreter on every system and with CUDA alike.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    ended: list[Ended] = []
    with ProcessPoolExecutor(workers, context, _watch_parent, (os.getpid(), stop)) as pool:
        waiting: set[Future[Ended]] = {pool.submit(_run, run) for run in left}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                for future in done:
                    ended.append(future.result())
                    on_end(ended[-1])
                on_tick()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return ended


def _watch_parent(parent: int, stop: Event) -> None:
    """A worker ends when it is told to, or when the process that started it is gone.

    At once and without ceremony: a run can be cut off anywhere.
    """

    def watch() -> None:
        while os.getppid() == parent and not stop.is_set():
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(run: PlannedRun) -> Ended:
    warnings.simplefilter("ignore")  # the parent has built this config and shown its warnings
    try:
        run_in_folder(RunFolder(run.folder.path))
    except DivergedError as error:
        return Ended(run, str(error), diverged=True)
    except FedforError as error:
        return Ended(run, str(error))
    except Exception as error:
        log = run.folder.path / "error.txt"
        write_atomically(log, traceback.format_exc().encode())
        return Ended(run, f"{told(error)}; all of it is in {log}")
    return Ended(run)
