"""What a run asks of its engine, and who does it: the run's own engine, or one for many runs."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..engines import Engine, Exam, Job, Result, StackedResult
from ..engines.engine import Ahead, Summed
from ..errors import FedforError
from ..protocol import Message

T = TypeVar("T")


@dataclass(frozen=True)
class Train:
    engine: Engine
    message: Message
    jobs: Iterable[Job]
    take: Callable[[Result | StackedResult | Summed], None]
    """Gets each result as soon as it is there."""
    ahead: Ahead | None = None
    """The jobs of the next round, for an engine that has time to look at them."""


@dataclass(frozen=True)
class Evaluate:
    engine: Engine
    exams: list[Exam]


Work = Train | Evaluate

Steps = Generator[Work, Any, T]
"""Asks for work, gets the scores for an Evaluate, and ends with a T."""


def drive(steps: Steps[T]) -> T:
    """Do the work of one run, piece by piece. What goes wrong with it, the run gets to see."""
    answer, error = None, None
    while True:
        try:
            work = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        try:
            answer = do(work)
        except FedforError as problem:
            error = problem


def do(work: Work) -> Any:
    """With the engine that it is asked of."""
    if isinstance(work, Evaluate):
        return work.engine.evaluate(work.exams)
    for result in work.engine.train(work.message, work.jobs, work.ahead):
        work.take(result)
    return None
