"""Who is trained beside whom, and on which rows at which step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.labelled import LabelledData, Rows
from ...randomness import entropy, generator
from ..batches import plan_batches
from ..engine import Job
from ..training import Training

if TYPE_CHECKING:
    from .step import Batch


@dataclass(frozen=True)
class Lane:
    """A client of one task, and the rows of the data set that it takes at each step."""

    task: int
    place: int
    """Its place among the jobs of the task."""
    job: Job
    batches: list[Rows]
    entropy: int
    """The randomness of the client's dropout, as if it were trained alone."""
    images: Tensor | None = None
    """How the images of all batches are to be changed, one after another."""

    @property
    def steps(self) -> int:
        return len(self.batches)


def plan_lane(task: int, place: int, job: Job, training: Training, seed: int, round_: int) -> Lane:
    draw = generator(seed, "batches", round_, job.client)
    positions = plan_batches(len(job.samples), training.batch_size, training.epochs, draw)
    images = None
    if (augmentation := training.augmentation) is not None:
        images = augmentation.draw(sum(map(len, positions)), seed, round_, job.client)
    noise = entropy(seed, "dropout", round_, job.client)
    return Lane(task, place, job, [job.samples.rows[p] for p in positions], noise, images)


@dataclass(frozen=True)
class Schedule:
    """The batches of some lanes, padded to one shape."""

    rows: Rows
    """[steps, lanes, batch]; padding is a row of the client's own."""
    counts: NDArray[np.int64]
    """[steps, lanes]: the samples that are no padding; 0 once a lane has ended."""
    images: Tensor | None = None
    """[steps, lanes, batch, 4]: how images are to be changed, if any are."""

    @staticmethod
    def of(lanes: Sequence[Lane]) -> "Schedule":
        steps = max(lane.steps for lane in lanes)
        batch = max(len(b) for lane in lanes for b in lane.batches)
        rows = np.empty((steps, len(lanes), batch), dtype=np.int64)
        counts = np.zeros((steps, len(lanes)), dtype=np.int64)
        changed = any(lane.images is not None for lane in lanes)
        images = torch.zeros(steps, len(lanes), batch, 4, dtype=torch.float64) if changed else None
        for i, lane in enumerate(lanes):
            sizes = [len(b) for b in lane.batches]
            rows[:, i] = lane.batches[0][0]
            counts[: len(sizes), i] = sizes
            held = np.arange(batch) < counts[: len(sizes), i, None]  # row by row, as they come
            rows[: len(sizes), i][held] = np.concatenate(lane.batches)
            if images is not None and lane.images is not None:
                images[: len(sizes), i][torch.from_numpy(held)] = lane.images
        return Schedule(rows, counts, images)

    @property
    def steps(self) -> int:
        return len(self.rows)

    def width(self, step: int) -> int:
        """The largest batch of this step."""
        return int(self.counts[step].max())

    def padded(self, step: int) -> bool:
        """Whether any lane has fewer samples than the largest batch of this step."""
        return bool((self.counts[step] != self.counts[step].max()).any())

    def times(self, step: int) -> int:
        """How many steps from this one on are of its shape."""
        shape = self.width(step), self.padded(step)
        return sum((self.width(s), self.padded(s)) == shape for s in range(step, self.steps))

    def running(self, step: int) -> NDArray[np.int64]:
        """The lanes that have not ended."""
        return np.flatnonzero(self.counts[step] > 0)

    def only(self, lanes: NDArray[np.int64]) -> "Schedule":
        images = None if self.images is None else self.images[:, lanes]
        return Schedule(self.rows[:, lanes], self.counts[:, lanes], images)


@dataclass
class Chunk:
    """Lanes that are trained together, those of a task side by side."""

    lanes: list[Lane]
    schedule: Schedule
    batches: "Batch | None" = None
    """The batches of all steps on the device, where they were brought there ahead."""

    @staticmethod
    def of(lanes: Iterable[Lane]) -> "Chunk":
        by_task = sorted(lanes, key=lambda lane: (lane.task, lane.place))
        return Chunk(by_task, Schedule.of(by_task))

    def only(self, places: NDArray[np.int64]) -> "Chunk":
        return Chunk([self.lanes[i] for i in places], self.schedule.only(places))

    @property
    def data(self) -> LabelledData:
        return self.lanes[0].job.samples.data

    def ranges(self) -> list[tuple[int, int, int]]:
        """For each task that has lanes here: the task, its first lane and the next one's first."""
        found: list[tuple[int, int, int]] = []
        for i, lane in enumerate(self.lanes):
            if found and found[-1][0] == lane.task:
                found[-1] = (lane.task, found[-1][1], i + 1)
            else:
                found.append((lane.task, i, i + 1))
        return found

    def relabelled(self) -> list[tuple[int, int, Tensor]]:
        """The lanes whose labels are not those of the data, and what each class is there."""
        found: list[tuple[int, int, Tensor]] = []
        for i, lane in enumerate(self.lanes):
            relabel = lane.job.samples.relabel
            if relabel is None:
                continue
            if found and found[-1][1] == i and found[-1][2] is relabel:
                found[-1] = (found[-1][0], i + 1, relabel)
            else:
                found.append((i, i + 1, relabel))
        return found

    def noise_keys(self) -> NDArray[np.int32]:
        """For dropout that is hashed on the device: a number for each client."""
        return np.array([lane.entropy % 2**31 for lane in self.lanes], dtype=np.int32)


def chunks(lanes: Sequence[Lane], most: int) -> Iterator[Chunk]:
    """At most so many lanes at a time, in chunks of like size.

    Those with like numbers of steps go together.
    """
    by_steps = sorted(lanes, key=lambda lane: -lane.steps)
    size = -(-len(lanes) // -(-len(lanes) // most))
    for start in range(0, len(by_steps), size):
        yield Chunk.of(by_steps[start : start + size])
