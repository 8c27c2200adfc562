"""Runs in step on one Ray cluster: the slices of all of them are handed out together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from .waiting import Waiting
from .work import Evaluate, Train

if TYPE_CHECKING:
    from ..engines.ray.engine import RayEngine, RoundJob
    from ..engines.ray.pool import Pool


def train_on(pool: "Pool", runs: Sequence[Waiting[Any]]) -> None:
    jobs: list[tuple[Waiting[Any], Train, RoundJob]] = []
    for run in runs:
        work = cast("Train", run.work)
        try:
            job = cast("RayEngine", work.engine).job(work.message, work.jobs)
        except Exception as error:
            run.error = error
        else:
            jobs.append((run, work, job))
    try:
        pool.train([job for _, _, job in jobs])
    except Exception as error:  # of the cluster: nobody can go on
        for run, _, _ in jobs:
            run.error = error
        return
    for run, work, job in jobs:
        try:
            work.take(job.result())
            job.commit()
        except Exception as error:
            run.error = error


def evaluate_on(pool: "Pool", runs: Sequence[Waiting[Any]]) -> None:
    asked = [cast("Evaluate", run.work) for run in runs]
    try:
        answers = pool.evaluate([(cast("RayEngine", a.engine), a.exams) for a in asked])
    except Exception as error:  # whose fault it was shows when each is alone
        if len(runs) == 1:
            runs[0].error = error
        else:
            for run in runs:
                evaluate_on(pool, [run])
        return
    for run, answer in zip(runs, answers, strict=True):
        run.answer = answer
