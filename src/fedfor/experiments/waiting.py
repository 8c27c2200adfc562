"""A run that has asked for something and waits for the answer."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .work import Steps, Work

T = TypeVar("T")


@dataclass(frozen=True)
class Ended(Generic[T]):
    value: T | Exception


class Waiting(Generic[T]):
    """A run, what it asks for, and the answer it is to get."""

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.work: Work | None = None
        self.answer: Any = None
        self.error: Exception | None = None

    def advance(self) -> Ended[T] | None:
        """Let the run go on to its next question, or to its end."""
        try:
            if self.error is not None:
                self.work = self.steps.throw(self.error)
            else:
                self.work = self.steps.send(self.answer)
        except StopIteration as end:
            return Ended(end.value)
        except Exception as error:  # whatever it is, it is this run's own
            return Ended(error)
        self.answer = self.error = None
        return None
