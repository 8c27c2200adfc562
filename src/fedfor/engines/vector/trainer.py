"""Local training of many clients at once, of one run or of several."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...algorithms import Algorithm
from ...errors import ConfigError, DataError, FedforError
from ...memory import is_out_of_memory
from ...protocol import Message
from ...randomness import torch_seeded
from ...tensors import Tensors
from ..engine import Ahead, Job, StackedResult, single_sample
from ..fisher import Loss
from ..forward import products
from ..stacking import DEFAULT, Stacking
from ..training import Training
from .cohort import Cohort
from .compiling import Compiler
from .lanes import Chunk, Lane, chunks, plan_lane
from .likeness import likeness
from .memory import bytes_a_lane, lanes_on_cpu, lanes_that_fit
from .model import StackedModel
from .resident import Resident
from .runner import Arena, Program
from .standins import StandIns
from .step import Batch, LocalStep
from .trial import learn
from .update import SgdOptions

SHRINK_AT = 0.75
"""The share of a stack that still runs at which those that have ended are taken out of it."""

MOST_ARENAS = 16

ROWS_KEPT = 8
"""Rows of weights that are held for a client beside a step's own: in two stacks, with extras."""

log = logging.getLogger("fedfor")


@dataclass(frozen=True)
class Task:
    """What one run wants trained in this round."""

    algorithm: Algorithm
    training: Training
    seed: int
    initial_own: Tensors
    message: Message
    jobs: Sequence[Job]
    ahead: Ahead | None = None
    stand_in: bool = False
    """Whether it only fills a place in the stack."""

    def lanes(self, place: int, jobs: Sequence[Job], round_: int) -> list[Lane]:
        return [
            plan_lane(place, i, job, self.training, self.seed, round_) for i, job in enumerate(jobs)
        ]


@dataclass(frozen=True)
class _Plan:
    """A round that was planned before its turn."""

    jobs: list[Sequence[Job]]
    chunks: list[Chunk]


class Trainer:
    """Trains the clients of several tasks together: same model, each task its own algorithm."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        device: torch.device,
        stacking: Stacking = DEFAULT,
    ) -> None:
        self.model = StackedModel(model, loss, device, stacking.precision)
        self._likeness = likeness(self.model.model)
        self.device, self.stacking, self.most_lanes = device, stacking, stacking.lanes
        self.halvings = 0
        self.compiled: bool | None = None
        self.together = 0
        """The most clients that were in one stack."""
        self.data = Resident(device, self.model.dtype)
        self._checked = False
        self._arenas: dict[object, Arena] = {}
        self.compiler = Compiler(device, stacking)
        self._planned: _Plan | None = None
        self._stand_ins = StandIns()
        self._numbers: Tensor | None = None

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[int, StackedResult]]:
        """For each task, by its place, the results of some of its clients, until all are done."""
        if not tasks:  # while all are tested: no round, so plans and places are kept
            return
        if self.compiled is not False:  # the first round, which decides it, counts too
            tasks = self._stand_ins.added(tasks)
        real = [place for place, task in enumerate(tasks) if not task.stand_in]
        for place, result in self._train(tasks):
            yield real.index(place), result

    def _train(self, tasks: Sequence[Task]) -> Iterator[tuple[int, StackedResult]]:
        plan = self._planned_for(tasks)
        if plan is None:
            lanes = [n for i, t in enumerate(tasks) for n in t.lanes(i, t.jobs, t.message.round)]
            if not lanes:
                return
            self._check(lanes)
            self._decide(lanes)
            plan = list(self._chunks(lanes, tasks))
        for chunk in plan:
            yield from self._train_or_split(tasks, chunk, last=chunk is plan[-1])

    def _chunks(self, lanes: Sequence[Lane], tasks: Sequence[Task]) -> Iterator[Chunk]:
        shrinks = all(SgdOptions.of(task.training) is not None for task in tasks)
        for alike in _alike(lanes, self.model.pads):
            for some in [alike] if shrinks else _of_like_length(alike):
                yield from chunks(some, self.most_lanes or len(lanes))

    def _planned_for(self, tasks: Sequence[Task]) -> list[Chunk] | None:
        """What was planned ahead, if it was for just these jobs."""
        planned, self._planned = self._planned, None
        if planned is None or len(planned.jobs) != len(tasks):
            return None
        for task, jobs in zip(tasks, planned.jobs, strict=True):
            same = zip(task.jobs, jobs, strict=False)
            if len(task.jobs) != len(jobs) or not all(a is b for a, b in same):
                return None
        return planned.chunks

    def _plan_ahead(self, tasks: Sequence[Task]) -> None:
        """The next round, while the GPU still works on this one."""
        jobs, lanes, asked = [], [], dict[Ahead, Sequence[Job]]()
        with suppress(FedforError):  # what is wrong there is said in its turn
            for i, task in enumerate(tasks):
                if task.ahead is None:
                    return
                if task.ahead not in asked:  # a stand-in has its jobs from another
                    asked[task.ahead] = task.ahead()
                jobs.append(asked[task.ahead])
                lanes += task.lanes(i, jobs[-1], task.message.round + 1)
            planned = list(self._chunks(lanes, tasks))
            for chunk in planned:
                chunk.batches = self._batches(chunk)
            self._planned = _Plan(jobs, planned)

    def _train_or_split(
        self, tasks: Sequence[Task], chunk: Chunk, last: bool
    ) -> Iterator[tuple[int, StackedResult]]:
        """Train these lanes, or half of them at a time if memory runs out after all."""
        lanes, results = chunk.lanes, None
        try:
            with self.model.backend(), self._seeded(tasks, lanes):
                results = self._train_together(tasks, chunk).results(self.data, self.compiler)
            if last and self.device.type == "cuda":
                self._plan_ahead(tasks)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(lanes) == 1:
                raise ConfigError(
                    f"client {lanes[0].job.client} alone does not fit into the memory of "
                    f"{self.device}; lower training.batch_size, or use device = 'cpu'"
                ) from error
        if results is None:
            self._arenas.clear()
            torch.cuda.empty_cache()
            self.most_lanes = -(-len(lanes) // 2)
            self.halvings += 1
            log.info("vector engine: memory ran out; %d clients at a time", self.most_lanes)
            for half in chunks(lanes, self.most_lanes):
                yield from self._train_or_split(tasks, half, last=False)
        yield from results or ()

    def _decide(self, lanes: Sequence[Lane]) -> None:
        """Once, in the first round: how many clients at a time, and whether to compile."""
        if self.compiled is not None:
            return
        images = sum(len(batch) for lane in lanes for batch in lane.batches)
        longest = max(lanes, key=lambda lane: max(map(len, lane.batches)))
        batch = max(longest.batches, key=len)
        x, y = self.data.batch(longest.job.samples, batch)
        self.compiler.products = products(self.model.model, x)
        self.compiled = self.compiler.worth(images)
        chosen = "as asked for" if self.most_lanes else "as many as fit"
        if self.most_lanes is None and self.device.type == "cuda":
            with self.model.backend():
                a_lane = bytes_a_lane(self.model, x, y, ROWS_KEPT)
            self.most_lanes = lanes_that_fit(a_lane, self.device)
            chosen += f", {a_lane / 2**20:.1f} MiB each"
        elif self.most_lanes is None:
            self.most_lanes = lanes_on_cpu(self.model, x.numel())
        log.info(
            "vector engine: %d of %d clients at a time (%s), %s%s",
            min(self.most_lanes, len(lanes)),
            len(lanes),
            chosen,
            self.model.precision,
            ", compiled" if self.compiled else "",
        )

    @property
    def about(self) -> dict[str, object]:
        """What was chosen, for the record."""
        return {
            "together": self.together,
            "precision": self.model.precision,
            "compiled": self.compiled,
        }

    def _seeded(self, tasks: Sequence[Task], lanes: Sequence[Lane]) -> AbstractContextManager[None]:
        """For whatever else a model draws in its forward: the same for the same clients."""
        if not self.model.draws:
            return nullcontext()
        first, task = lanes[0], tasks[lanes[0].task]
        at = (task.seed, "stack", task.message.round, first.job.client)
        return torch_seeded(*at, self.device)

    def fits(self, model: nn.Module, loss: Loss) -> bool:
        """Whether this model is like the present one in all but what is trained or sent."""
        alike = likeness(model)
        return loss is self.model.loss.loss and alike is not None and alike == self._likeness

    def check(self, x: Tensor, y: Tensor) -> None:
        """Learn what the model needs, from a few samples, or say why it cannot be stacked."""
        if not self._checked:
            dtype = self.model.dtype if x.is_floating_point() else x.dtype
            learn(self.model, x.to(self.device, dtype), y.to(self.device))
            self._checked = True

    def _check(self, lanes: Sequence[Lane]) -> None:
        if self._checked:
            return
        some = max(lanes, key=lambda lane: len(lane.batches[0]))
        self.check(*self.data.batch(some.job.samples, some.batches[0][:4]))

    def _train_together(self, tasks: Sequence[Task], chunk: Chunk) -> Cohort:
        cohort = Cohort(self.model, tasks, chunk)
        self.together = max(self.together, len(chunk.lanes))
        arena = self._arena(cohort)
        arena.begin(cohort)
        x, _ = self.data.of(chunk.data)
        batches = self._batches(chunk) if chunk.batches is None else chunk.batches
        for s in range(cohort.schedule.steps):
            if (keep := self._worth_keeping(cohort, s)) is not None:
                cohort.shrink(keep)
                arena.release()
                arena, batches = self._arena(cohort), self._batches(cohort.chunk)
                arena.go_on(cohort)
            batch = self._batch(cohort, batches, s)
            step = cohort.step(s)
            try:
                program = self._program(arena, step, batch, x, cohort, s)
                program(cohort.state, cohort.terms, batch, x, arena.fixed)
            except ValueError as error:
                raise _told(error, cohort, s) from error
            cohort.optimizer_step(batch.counts > 0 if step.padded else None)
        arena.release()
        return cohort

    def _worth_keeping(self, cohort: Cohort, s: int) -> NDArray[np.int64] | None:
        """The lanes to go on with, once enough of the others have ended.

        A captured graph is for one number of lanes, so on a GPU a stack is only ever halved.
        """
        running, lanes = cohort.schedule.running(s), len(cohort.places)
        if not cohort.can_shrink or len(running) > SHRINK_AT * lanes:
            return None
        if self.device.type != "cuda":
            return running
        size = lanes
        while size // 2 >= max(len(running), 1):
            size //= 2
        if size == lanes:
            return None
        ended = np.setdiff1d(np.arange(lanes), running)
        return np.sort(np.concatenate([running, ended[: size - len(running)]]))

    def _batch(self, cohort: Cohort, batches: Batch, s: int) -> Batch:
        width = cohort.schedule.width(s)
        # Contiguous whatever the width: a trace holds for one layout in memory.
        rows, labels = (t[s, :, :width].contiguous() for t in (batches.rows, batches.labels))
        batch = Batch(rows, labels, batches.counts[s])
        if batches.images is not None:
            batch.images = batches.images[s, :, :width].contiguous()
        if self.model.sites and self.device.type == "cpu":
            batch.noise = cohort.noise(s, width)
        elif self.model.sites:
            batch.keys, batch.step = batches.keys, self._steps(s)
        return batch

    def _steps(self, s: int) -> Tensor:
        if self._numbers is None or s >= len(self._numbers):
            self._numbers = torch.arange(2 * s + 64, device=self.device)
        return self._numbers[s]

    def _batches(self, chunk: Chunk) -> Batch:
        """All steps' batches on the device."""
        schedule = chunk.schedule
        rows = self.data.rows(schedule.rows)
        labels = self.data.of(chunk.data)[1][rows]
        for a, b, relabel in chunk.relabelled():
            labels[:, a:b] = relabel.to(self.device)[labels[:, a:b]]
        keys, images = None, schedule.images
        if self.model.sites and self.device.type != "cpu":
            keys = self.data.rows(chunk.noise_keys())
        if images is not None:
            images = images.to(self.device)
        return Batch(rows, labels, self.data.rows(schedule.counts), images, keys=keys)

    def _arena(self, cohort: Cohort) -> Arena:
        """Where this stack is trained: on a GPU, in the tensors of the last one like it."""
        key = (cohort.key, len(cohort.places))
        arena = self._arenas.pop(key, None)
        if arena is None:
            while len(self._arenas) >= MOST_ARENAS:
                del self._arenas[next(iter(self._arenas))]
            arena = Arena(fixed=self.device.type == "cuda")
        self._arenas[key] = arena  # at the end: the one used last
        return arena

    def _program(
        self, arena: Arena, step: LocalStep, batch: Batch, x: Tensor, cohort: Cohort, s: int
    ) -> Program:
        changed = batch.images is not None
        key = (step.padded, step.alone, batch.rows.shape[1], changed, x.data_ptr())
        if key not in arena.programs:
            images = batch.rows.numel() * cohort.schedule.times(s)
            arena.programs[key] = Program(step, self.compiler.worth(images))
        return arena.programs[key]


def _alike(lanes: Sequence[Lane], pads: bool) -> list[list[Lane]]:
    """Lanes that can be in one stack: their samples lie in one data set, and, if the model does
    not bear padding, their batches are of the same sizes."""
    sets: dict[object, list[Lane]] = {}
    for lane in lanes:
        sizes = None if pads else tuple(len(batch) for batch in lane.batches)
        sets.setdefault((id(lane.job.samples.data), sizes), []).append(lane)
    return list(sets.values())


def _of_like_length(lanes: Sequence[Lane]) -> Iterator[list[Lane]]:
    """For stacks that cannot shrink: those with many steps not beside those with few."""
    left = sorted(lanes, key=lambda lane: -lane.steps)
    while left:
        count = sum(lane.steps > SHRINK_AT * left[0].steps for lane in left)
        yield left[:count]
        left = left[count:]


def _told(error: ValueError, cohort: Cohort, step: int) -> Exception:
    if "more than 1 value per channel" not in str(error):
        return error
    lonely = int(cohort.places[np.flatnonzero(cohort.schedule.counts[step] == 1)[0]])
    client = cohort.lanes[lonely].job.client
    return DataError(single_sample(client))
