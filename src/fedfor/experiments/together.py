"""Many runs in step, their work done as one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..engines import Exam, StackedResult
from ..engines.names import RAY
from ..engines.vector import Trainer, VectorEngine
from ..engines.vector.evaluation import evaluate
from ..tensors import Tensors
from .on_cluster import evaluate_on, train_on
from .waiting import Waiting
from .work import Evaluate, Steps, Train, do

T = TypeVar("T")


def drive_together(runs: Sequence[Steps[T]], on_end: Callable[[int, T | Exception], None]) -> None:
    """Do the work of several runs whose vector engines share a trainer, all of it together.

    Whatever a run asks for at the same time as others is done in one go. A run that fails ends
    alone; `on_end` gets its error, or what it ended with.
    """
    waiting = {place: Waiting(run) for place, run in enumerate(runs)}
    answered = dict(waiting)
    while waiting:
        # All of a round count as beside each other until the last of them has ended.
        ended = {p: end for p, run in answered.items() if (end := run.advance()) is not None}
        for place, end in ended.items():
            del waiting[place]
            on_end(place, end.value)
        answered = _next(waiting)
        _answer(list(answered.values()))


def _next(waiting: dict[int, Waiting[T]]) -> dict[int, Waiting[T]]:
    """All of them, as a rule. A run whose round is abandoned asks for scores while others ask for
    training: it gets them first, and from then on all train together again."""
    tested = {place: run for place, run in waiting.items() if isinstance(run.work, Evaluate)}
    return tested or dict(waiting)


def _answer(runs: Sequence[Waiting[Any]]) -> None:
    """Do what the runs ask for: together what one trainer can do for several of them."""
    alone: list[Waiting[Any]] = []
    shared: dict[Trainer, list[Waiting[Any]]] = {}
    clustered: dict[Any, list[Waiting[Any]]] = {}
    for run in runs:
        engine = run.work.engine if run.work is not None else None
        if isinstance(engine, VectorEngine):
            shared.setdefault(engine.trainer, []).append(run)
        elif engine is not None and engine.name == RAY:
            clustered.setdefault(engine.pool, []).append(run)  # type: ignore[attr-defined]
        else:
            alone.append(run)
    for run in alone:
        try:
            run.answer = do(run.work) if run.work is not None else None
        except Exception as error:
            run.error = error
    for trainer, of_trainer in shared.items():
        _train(trainer, [run for run in of_trainer if isinstance(run.work, Train)])
        _evaluate(trainer, [run for run in of_trainer if isinstance(run.work, Evaluate)])
    for pool, of_pool in clustered.items():
        train_on(pool, [run for run in of_pool if isinstance(run.work, Train)])
        evaluate_on(pool, [run for run in of_pool if isinstance(run.work, Evaluate)])


def _train(trainer: Trainer, runs: Sequence[Waiting[Any]]) -> None:
    takes, tasks = [], []
    for run in runs:
        work = run.work
        assert isinstance(work, Train)
        assert isinstance(work.engine, VectorEngine)
        try:
            tasks.append(work.engine.task(work.message, work.jobs, work.ahead))
            takes.append((run, work.take))
        except Exception as error:
            run.error = error
    taken: list[set[int]] = [set() for _ in tasks]

    def deliver(place: int, result: StackedResult) -> None:
        run, take = takes[place]
        taken[place].update(result.clients)
        if run.error is None:
            try:
                take(result)
            except Exception as error:
                run.error = error

    try:
        for place, result in trainer.train(tasks):
            deliver(place, result)
    except Exception as error:
        if len(tasks) == 1:
            takes[0][0].error = error
            return
        for place, task in enumerate(tasks):  # whose fault it was shows when each is alone
            left = [job for job in task.jobs if job.client not in taken[place]]
            try:
                for _, result in trainer.train([replace(task, jobs=left, ahead=None)]):
                    deliver(place, result)
            except Exception as problem:
                takes[place][0].error = problem


def _evaluate(trainer: Trainer, runs: Sequence[Waiting[Any]]) -> None:
    try:
        scores = iter(evaluate(trainer, [exam for run in runs for exam in _exams(run)]))
        for run in runs:
            run.answer = [next(scores) for _ in _exams(run)]
    except Exception as error:  # whose fault it was shows when each is alone
        if len(runs) == 1:
            runs[0].error = error
            return
        for run in runs:
            _evaluate(trainer, [run])


def _exams(run: Waiting[Any]) -> list[tuple[Exam, Tensors]]:
    work = run.work
    assert isinstance(work, Evaluate)
    assert isinstance(work.engine, VectorEngine)
    return [(exam, work.engine.initial_own) for exam in work.exams]
