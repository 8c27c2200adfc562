"""Run all runs of a comparison that are not done yet, several processes at a time."""

import multiprocessing
import os
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from ..errors import DivergedError, FedforError
from .build import build_simulation
from .comparison import Comparison, PlannedRun
from .folder import RunFolder
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
    for run in left:
        if not run.folder.config_path.is_file():
            run.folder.create(run.config)
    if workers is None:
        workers = 1 if comparison.first.device != "cpu" else os.cpu_count() or 1
    ended: list[Ended] = []
    # Spawned, so that a worker is a fresh interpreter on every system and with CUDA alike.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, min(workers, len(left) or 1)), mp_context=context) as pool:
        waiting: dict[Future[Ended], PlannedRun] = {pool.submit(_run, run): run for run in left}
        try:
            while waiting:
                done, _ = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                for future in done:
                    del waiting[future]
                    ended.append(future.result())
                    on_end(ended[-1])
                on_tick()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return ended


def _run(run: PlannedRun) -> Ended:
    warnings.simplefilter("ignore")  # the parent has built this config and shown its warnings
    try:
        run_in_folder(RunFolder(run.folder.path))
    except DivergedError as error:
        return Ended(run, str(error), diverged=True)
    except FedforError as error:
        return Ended(run, str(error))
    return Ended(run)
