"""Keeping the shape of a stack when a run leaves it, for instance because it has diverged.

What is compiled or captured is for one division of a stack into runs, and takes minutes to make
again. A stand-in trains clients of another run in the place of the one that left; nobody looks at
what comes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import Task

MOST = 0.25
"""The share of stand-ins in a stack up to which they are worth their while."""


@dataclass
class StandIns:
    last: "Sequence[Task]" = ()

    def added(self, tasks: "Sequence[Task]") -> "list[Task]":
        """The tasks, with stand-ins in the places of those that were there before and are not."""
        filled, left = [], list(tasks)
        for before in self.last:
            if left and _alike(before, left[0]):
                filled.append(left.pop(0))
            elif (living := _like_in_size(before, tasks)) is not None:
                # The living run's clients and model, the other's method.
                method = replace(before, jobs=living.jobs, message=living.message)
                filled.append(replace(method, ahead=living.ahead, seed=living.seed, stand_in=True))
            else:
                break
        stand_ins = sum(task.stand_in for task in filled)
        if left or len(filled) != len(self.last) or stand_ins > MOST * len(filled):
            filled = list(tasks)
        self.last = filled
        return filled


def _alike(one: "Task", other: "Task") -> bool:
    return (
        one.algorithm.client == other.algorithm.client
        and one.algorithm.sharing == other.algorithm.sharing
        and one.training == other.training
        and len(one.jobs) == len(other.jobs)
    )


def _like_in_size(one: "Task", tasks: "Sequence[Task]") -> "Task | None":
    """A run that can lend its clients: as many, with as many samples to train on."""
    return next(
        (t for t in tasks if t.training == one.training and len(t.jobs) == len(one.jobs)), None
    )
