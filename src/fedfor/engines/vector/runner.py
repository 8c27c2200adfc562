"""How a step is run: as it is written, traced once and replayed, or compiled and captured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .cohort import Cohort
from .compiling import Flat, compiled, traced
from .step import Batch, LocalStep, State, Term

TRACE_AFTER = 8
"""Steps after which a trace has paid for itself: making one takes about as long."""


class Arena:
    """The tensors of stacks of one shape, and the programs that run on them.

    On a GPU they stay where they are from round to round, because a captured graph works on fixed
    addresses; elsewhere they are whatever the present stack has.
    """

    def __init__(self, fixed: bool) -> None:
        self.fixed = fixed
        self.state: State | None = None
        self.terms: list[Term] = []
        self.programs: dict[object, Program] = {}

    def begin(self, cohort: Cohort) -> None:
        """Start a stack here."""
        self.state = cohort.begin(self.state if self.fixed else None)
        self._take_terms(cohort)

    def go_on(self, cohort: Cohort) -> None:
        """Take over a stack that has been begun elsewhere."""
        if self.state is None or not self.fixed:
            self.state = cohort.state
        else:
            _copy(self.state.tensors(), cohort.state.tensors())
        self._take_terms(cohort)

    def _take_terms(self, cohort: Cohort) -> None:
        assert self.state is not None
        if not self.terms or not self.fixed:
            self.terms = list(cohort.terms)
        else:
            for held, new in zip(self.terms, cohort.terms, strict=True):
                _copy(held.tensors(), new.tensors())
        cohort.move_to(self.state, self.terms)

    def release(self) -> None:
        """The stack is done."""
        if not self.fixed:
            self.state, self.terms = None, []


class Program:
    """One LocalStep on an arena."""

    def __init__(self, step: LocalStep, compiled: bool) -> None:
        self.step, self.compiled = replace(step, whole=compiled), compiled
        self.calls = 0
        self._traced: Flat | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None

    def __call__(
        self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor, fixed: bool
    ) -> None:
        self.calls += 1
        if fixed:
            self._replay(state, terms, batch, x)
        elif self.calls <= TRACE_AFTER:
            self.step(state, terms, batch, x)
        else:
            if self._traced is None:
                self._traced = self._trace(state, terms, batch, x)
            self._traced(*_flat(state, terms, batch, x))

    def _replay(self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor) -> None:
        if self._graph is None or self._batch is None:
            self._batch = batch.of({name: t.clone() for name, t in batch.tensors().items()})
            self._graph = self._capture(state, terms, self._batch, x)
        _copy(self._batch.tensors(), batch.tensors())
        self._graph.replay()

    def _capture(
        self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor
    ) -> torch.cuda.CUDAGraph:
        before = _clones(state)
        run = self._best(state, terms, batch, x)
        flat = _flat(state, terms, batch, x)
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # kernels are compiled and handles made before the capture
            for _ in range(2):
                run(*flat)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run(*flat)
        _copy(state.tensors(), before.tensors())
        return graph

    def _best(self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor) -> Flat:
        if not self.compiled:
            return lambda *flat: self.step(state, terms, batch, x)
        return compiled(self._trace(state, terms, batch, x), _flat(_clones(state), terms, batch, x))

    def _trace(self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor) -> Flat:
        """The tensor operations of the step, without the Python that led to them."""
        of_terms = [term.tensors() for term in terms]
        tree = (_clones(state).tensors(), of_terms, batch.tensors(), x)  # tracing runs the step
        flat, shape = pytree.tree_flatten(tree)

        def run(*tensors: Tensor) -> None:
            s, t, b, data = pytree.tree_unflatten(tensors, shape)
            of_run = [term.of(named) for term, named in zip(terms, t, strict=True)]
            self.step(state.of(s), of_run, batch.of(b), data)

        return traced(run, flat)


def _clones(state: State) -> State:
    return state.of({name: t.clone() for name, t in state.tensors().items()})


def _flat(state: State, terms: Sequence[Term], batch: Batch, x: Tensor) -> list[Tensor]:
    of_terms = [term.tensors() for term in terms]
    return pytree.tree_leaves((state.tensors(), of_terms, batch.tensors(), x))


@torch.no_grad()
def _copy(into: dict[str, Tensor], source: dict[str, Tensor]) -> None:
    names = list(into)
    torch._foreach_copy_([into[n] for n in names], [source[n] for n in names], non_blocking=True)
