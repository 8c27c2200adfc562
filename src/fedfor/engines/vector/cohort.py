"""The clients that are trained together: where they start, how far they are, what they send."""

import functools
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from ...algorithms import ClientOpt
from ...algorithms.sharing import buffers, stays_local
from ...protocol import Kept, StackedReply
from ...protocol.local import OWN_LAYERS, require_declared
from ...tensors import Extras, Tensors
from ..augment import Augmentation
from ..engine import StackedResult
from .compiling import Compiler
from .fisher import stacked_fisher
from .lanes import Chunk, Lane, Schedule
from .model import StackedModel
from .noise import as_alone
from .resident import Resident
from .step import LocalStep, Share, State, Term
from .update import SgdOptions, make_optimizer

if TYPE_CHECKING:
    from .trainer import Task


class Part:
    """The clients of one task in a cohort, which lie side by side."""

    def __init__(
        self, model: StackedModel, place: int, task: "Task", lanes: Sequence[Lane]
    ) -> None:
        self.model, self.place, self.task, self.lanes = model, place, task, lanes
        self.own = stays_local(model.model, task.algorithm.sharing)
        self.width = model.layout.shared_width(task.algorithm.sharing)
        self.sgd = SgdOptions.of(task.training)
        self._kept = [lane.job.state() for lane in lanes]
        self.term = self._term()

    def _term(self) -> Term:
        client, message, like = self.task.algorithm.client, self.task.message, self.model.like
        row = self.model.layout.row
        down = {
            extra: row(message.extras.get(extra, {}), like, self.width)[None]
            for extra in client.down
        }
        kept = {
            extra: torch.stack(
                [row(k.extras.get(extra, {}) if k else {}, like, self.width) for k in self._kept]
            )
            for extra in client.keeps
        }
        seen = [[float(k is not None and k.round == message.moved_in)] for k in self._kept]
        return Term(
            row(message.params, like, self.width)[None],
            down,
            kept,
            like.new_full((1, 1), self.task.training.lr_in(message.round)),
            like.new_tensor([[float(lane.steps)] for lane in self.lanes]),
            like.new_tensor(seen),
        )

    def fill(self, weights: Tensor) -> None:
        """Where each client starts: the global model, and its own layers if it has some."""
        weights[:, : self.width] = self.term.start
        if self.own:
            row, own = self.model.layout.row, self._own_layers()
            rows = [row(tensors, self.model.like)[self.width :] for tensors in own]
            weights[:, self.width :] = torch.stack(rows)

    def starts_of(self, buffer: str) -> list[Tensor]:
        """Where a buffer starts: the same for all clients, or one for each if it is their own."""
        if buffer in self.own:
            return [layers[buffer] for layers in self._own_layers()]
        return [self.task.message.buffers[buffer]]

    def _own_layers(self) -> list[Tensors]:
        initial = self.task.initial_own
        return [k.extras.get(OWN_LAYERS, initial) if k else initial for k in self._kept]

    @torch.no_grad()
    def result(self, state: State, data: Resident, compiler: Compiler) -> StackedResult:
        """What the clients send and keep, once all are done."""
        client, term = self.task.algorithm.client, self.term
        w, count = state.weights, len(self.lanes)
        extras = dict(term.extras)
        if client.needs_fisher:
            samples = [lane.job.samples for lane in self.lanes]
            fisher = stacked_fisher(self.model, state, samples, data, compiler)
            extras["fisher"] = fisher[:, : self.width]
        outcome = client.finish(w[:, : self.width], term.start, extras, term.local)
        require_declared(client, outcome)

        def named(rows: Tensor) -> Tensors:
            return self.model.layout.split(rows.expand(count, -1))

        shared = {n: b for n, b in state.buffers.items() if n not in self.own}
        reply = StackedReply(
            named(outcome.upload) | shared,
            {e: named(outcome.up[e]) if e in outcome.up else {} for e in client.up},
            tuple(len(lane.job.samples) for lane in self.lanes),
            tuple(lane.steps for lane in self.lanes),
        )
        keep = {extra: rows.expand(count, -1) for extra, rows in outcome.kept.items()}
        kept = None
        if client.keeps or self.own:
            kept = tuple(self._keep(i, keep, state) for i in range(count))
        losses = state.loss.double() / term.steps[:, 0]
        return StackedResult(tuple(lane.job.client for lane in self.lanes), reply, kept, losses)

    def _keep(self, i: int, rows: Tensors, state: State) -> Kept:
        """Copies, so that a client's state does not hold the whole cohort's memory."""
        split = self.model.layout.split
        extras: Extras = {extra: {} for extra in self.task.algorithm.client.keeps}
        for extra, of_all in rows.items():
            extras[extra] = split(of_all[i].clone())
        if self.own:
            held = {name: b[i].clone() for name, b in state.buffers.items()}
            everything: Tensors = dict(self.model.model.named_parameters())  # some may be frozen
            everything |= self.model.layout.split_own(state.weights[i, self.width :].clone()) | held
            extras[OWN_LAYERS] = {n: t.detach() for n, t in everything.items() if n in self.own}
        return Kept(self.task.message.round, extras)


def _key(client: ClientOpt) -> object:
    """Equal for methods with the same settings, if they can be compared."""
    return client if isinstance(client, Hashable) else id(client)


class Cohort:
    """All parts, in one stack, from which clients that have ended are taken out."""

    def __init__(self, model: StackedModel, tasks: "Sequence[Task]", chunk: Chunk) -> None:
        self.model, self.lanes, self.chunk = model, chunk.lanes, chunk
        self.parts = [Part(model, i, tasks[i], self.lanes[a:b]) for i, a, b in chunk.ranges()]
        self.ranges = [(a, b) for _, a, b in chunk.ranges()]
        self.places = np.arange(len(self.lanes))
        self.terms = [part.term for part in self.parts]
        self._optimizers: list[Optimizer | None] | None = None
        self._generators: list[torch.Generator] | None = None

    def begin(self, state: State | None) -> State:
        """Fill a stack with where the clients start: this one if it is given."""
        if state is None:
            state = self._empty()
        for part, (a, b) in zip(self.parts, self.ranges, strict=True):
            part.fill(state.weights[a:b])
        self._fill_buffers(state.buffers)
        for tensor in (state.loss, state.momentum, state.gradients):
            if tensor is not None:
                tensor.zero_()
        self.state = self._whole = state
        return state

    def _empty(self) -> State:
        count, like = len(self.lanes), self.model.like
        weights = like.new_empty(count, self.model.layout.width)
        weights[:, self.model.layout.used :] = 0
        momentum = any(part.sgd is not None and part.sgd.momentum for part in self.parts)
        others = any(part.sgd is None for part in self.parts)
        return State(
            weights,
            {n: b.new_empty(count, *b.shape) for n, b in buffers(self.model.model).items()},
            like.new_empty(count),
            torch.empty_like(weights) if momentum else None,
            torch.empty_like(weights) if others else None,
        )

    def _fill_buffers(self, buffers: Tensors) -> None:
        """Each for all runs at once: there are many of both, and every buffer is small."""
        places: dict[tuple[int, ...], Tensor] = {}
        for name, buffer in buffers.items():
            starts = [part.starts_of(name) for part in self.parts]
            counts = tuple(len(of_part) for of_part in starts)
            if counts not in places:
                at = self._places_of_starts(counts)
                places[counts] = at.to(buffer.device, non_blocking=True)
            sources = torch.stack([t.to(buffer) for of_part in starts for t in of_part])
            torch.index_select(sources, 0, places[counts], out=buffer)

    def _places_of_starts(self, counts: Sequence[int]) -> Tensor:
        """Which start each client has, where each part has so many: one for all, or one each."""
        firsts = np.cumsum([0, *counts[:-1]])
        of_parts = [
            first + np.arange(len(part.lanes)) * (count > 1)
            for part, first, count in zip(self.parts, firsts, counts, strict=True)
        ]
        return torch.from_numpy(np.concatenate(of_parts))

    def _make_optimizers(self) -> list[Optimizer | None]:
        return [
            None
            if part.sgd is not None
            else make_optimizer(
                part.task.training, self.state.weights[a:b], part.task.message.round
            )
            for part, (a, b) in zip(self.parts, self.ranges, strict=True)
        ]

    @property
    def shares(self) -> tuple[Share, ...]:
        return tuple(
            Share(a, b, part.task.algorithm.client, part.sgd)
            for part, (a, b) in zip(self.parts, self.ranges, strict=True)
        )

    def optimizer_step(self, running: Tensor | None) -> None:
        """For optimizers other than plain SGD, whose gradients the local step has left."""
        if self.state.gradients is None:
            return
        if self._optimizers is None:
            self._optimizers = self._make_optimizers()
        for optimizer, (a, b) in zip(self._optimizers, self.ranges, strict=True):
            if optimizer is None:
                continue
            weights = optimizer.param_groups[0]["params"][0]
            before = weights.clone() if running is not None else None
            weights.grad = self.state.gradients[a:b]
            optimizer.step()
            if running is not None and before is not None:
                weights.copy_(torch.where(running[a:b, None], weights, before))

    @property
    def can_shrink(self) -> bool:
        """Optimizers of torch hold on to the whole stack."""
        return self.state.gradients is None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for stacks of the same runs, divided alike."""
        return tuple(
            (s.start, s.stop, _key(s.client), s.sgd, part.width, part.task.training.augmentation)
            for s, part in zip(self.shares, self.parts, strict=True)
        )

    def step(self, s: int) -> LocalStep:
        alone = bool((self.schedule.counts[s] == 1).any())
        # All of it at once: what a run does not ask for is drawn as no change for its clients.
        images = [a for p in self.parts if (a := p.task.training.augmentation) is not None]
        augmentation = functools.reduce(Augmentation.__or__, images) if images else None
        return LocalStep(self.model, self.shares, self.schedule.padded(s), alone, augmentation)

    def noise(self, s: int, width: int) -> list[Tensor]:
        """What dropout draws at this step, as each client would if it were trained alone."""
        if self._generators is None:
            self._generators = [
                torch.Generator().manual_seed(lane.entropy % 2**63) for lane in self.lanes
            ]
        mine = [self._generators[place] for place in self.places]
        return as_alone(self.model.sites, mine, self.schedule.counts[s].tolist(), width)

    @property
    def schedule(self) -> Schedule:
        return self.chunk.schedule

    def move_to(self, state: State, terms: Sequence[Term]) -> None:
        """Go on in these tensors, which hold the same."""
        self.state, self.terms = state, list(terms)

    def shrink(self, keep: NDArray[np.int64]) -> None:
        """Go on with these lanes of the present stack; the others have ended."""
        self._write_back()
        at = torch.from_numpy(keep).to(self.model.device)
        chosen = {name: t[at] for name, t in self.state.tensors().items()}
        self.state = self.state.of(chosen)
        terms, ranges, start = [], [], 0
        for term, (a, b) in zip(self.terms, self.ranges, strict=True):
            mine = keep[(keep >= a) & (keep < b)] - a
            terms.append(term.only(torch.from_numpy(mine).to(self.model.device)))
            ranges.append((start, start + len(mine)))
            start += len(mine)
        self.terms, self.ranges = terms, ranges
        self.places = self.places[keep]
        self.chunk = self.chunk.only(keep)

    def _write_back(self) -> None:
        if self.state is self._whole:
            self._whole = self.state.of({n: t.clone() for n, t in self.state.tensors().items()})
            return
        at = torch.from_numpy(self.places).to(self.model.device)
        for name, whole in self._whole.tensors().items():
            whole[at] = self.state.tensors()[name]

    def results(self, data: Resident, compiler: Compiler) -> list[tuple[int, StackedResult]]:
        if self.state is not self._whole:
            self._write_back()
        counts = [len(part.lanes) for part in self.parts]
        of_parts = {name: t.split_with_sizes(counts) for name, t in self._whole.tensors().items()}
        results = []
        for i, part in enumerate(self.parts):
            state = self._whole.of({name: ts[i] for name, ts in of_parts.items()})
            if not part.task.stand_in:
                results.append((part.place, part.result(state, data, compiler)))
        return results
