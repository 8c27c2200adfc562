"""The vector engine gives the serial engine's numbers, in float64 to 1e-9."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedfor.algorithms import ClientOpt, Local, Named, Outcome, algorithm
from fedfor.algorithms.presets import as_algorithm
from fedfor.data import ConceptShift, DataSplit, Partition
from fedfor.engines import SerialEngine, Training
from fedfor.engines.stacking import Stacking
from fedfor.engines.vector import Trainer, VectorEngine, runner
from fedfor.engines.vector import trainer as trainer_module
from fedfor.engines.vector.step import LocalStep
from fedfor.errors import DivergedError
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.together import drive_together
from fedfor.experiments.work import Evaluate, Train
from fedfor.models import build_model, linear, mlp, resnet20

from .stacks import (
    ALGORITHMS,
    TRAINING,
    WITH_BATCH_NORM,
    assert_same,
    assert_same_records,
    both,
    build,
    norm_cnn,
    ragged,
    reference,
    simulation,
)


@pytest.mark.xdist_group("sweeps")  # what they are compared with is worked out once
@pytest.mark.parametrize("lanes", [None, 5], ids=["whole", "chunked"])
@pytest.mark.parametrize(
    "make",
    [pytest.param(mlp, marks=pytest.mark.fast), norm_cnn, resnet20],
    ids=lambda m: m.__name__,
)
def test_a_sweep_of_all_algorithms_is_each_alone(
    make: Callable[..., nn.Module], lanes: int | None
) -> None:
    """Every algorithm and ServerOpt, ragged clients, in one stack, after three rounds; after two
    of one epoch with the largest model."""
    names = ALGORITHMS + (() if make is mlp else WITH_BATCH_NORM)
    trainer = Trainer(
        build(make), nn.functional.cross_entropy, torch.device("cpu"), Stacking(lanes=lanes)
    )
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = ragged()
    rounds, epochs = (2, 1) if make is resnet20 else (3, 2)
    training = replace(TRAINING, epochs=epochs)
    runs = [simulation(shared, build(make), name, training, clients) for name in names]
    records: list[list[Record]] = [[] for _ in runs]
    for _ in range(rounds):
        drive_together([r.steps() for r in runs], lambda i, r: records[i].append(r))
    for name, run, of_run in zip(names, runs, records, strict=True):
        theirs, their_records = reference(make, name, rounds, epochs)
        assert_same(run, theirs)
        assert_same_records(of_run, their_records)


@pytest.mark.parametrize("momentum", [0.0, 0.5], ids=["plain", "one run has momentum"])
def test_all_weights_changed_at_once(monkeypatch: pytest.MonkeyPatch, momentum: float) -> None:
    """As it is done where a step is compiled, which a CPU's is not, with clients that have ended
    and are still in the stack, as on a GPU. Not where a run keeps more than weights."""
    monkeypatch.setattr(runner, "replace", lambda step, whole: replace(step, whole=True))
    monkeypatch.setattr(trainer_module, "SHRINK_AT", 0.0)
    taken = counted(monkeypatch, LocalStep, "_update_whole")
    names = ("fedavg", "fedfor", "fedcurv", "scaffold", "fedfor+fedbn")
    trainings = [TRAINING] * 4 + [replace(TRAINING, options={"momentum": momentum})]
    trainer = Trainer(build(norm_cnn), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = ragged()  # a stack is of one data set
    pairs = [
        [simulation(engine, build(norm_cnn), *what, clients) for engine in (shared, SerialEngine)]
        for what in zip(names, trainings, strict=True)
    ]
    assert_same_after_three_rounds(pairs)
    assert bool(taken) != bool(momentum)
    assert momentum or any(running is not None and not running.all() for *_, running in taken)


def assert_same_after_three_rounds(pairs: Sequence[Sequence[Simulation]]) -> None:
    """Of each pair, the first one is trained in step with the others, the second one alone."""
    for _ in range(3):
        drive_together([ours.steps() for ours, _ in pairs], lambda i, r: None)
    for ours, theirs in pairs:
        for _ in range(3):
            theirs.round()
        assert_same(ours, theirs)


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[tuple[Any, ...]]:
    """What the method is called with from now on."""
    method, calls = getattr(owner, name), list[tuple[Any, ...]]()

    def called(self: object, *args: Any) -> None:
        calls.append(args)
        method(self, *args)

    monkeypatch.setattr(owner, name, called)
    return calls


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=4, max_size=7),
    batch=st.integers(1, 9),
    epochs=st.integers(1, 3),
    lanes=st.none() | st.integers(1, 5),
    name=st.sampled_from(["fedavg", "fedfor", "scaffold", "fedcurv", "fedprox+fedadam"]),
)
def test_any_cohort(
    sizes: list[int], batch: int, epochs: int, lanes: int | None, name: str
) -> None:
    training = Training(epochs=epochs, batch_size=batch, lr=0.05)
    clients = ragged(sizes)
    assert_same(*both(build(mlp), name, training, clients, stacking=Stacking(lanes=lanes)))


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(3, 20), min_size=4, max_size=6), batch=st.integers(3, 8))
def test_padding_never_touches_batch_norm(sizes: list[int], batch: int) -> None:
    """Statistics, running averages and gradients are over a client's own samples."""
    training = Training(epochs=2, batch_size=batch, lr=0.01)
    assert_same(*both(build(norm_cnn), "fedbn", training, ragged(sizes)), tolerance=1e-7)


@pytest.mark.fast
def test_what_a_client_keeps_holds_no_more_memory_than_it_needs() -> None:
    run = simulation(VectorEngine, build(norm_cnn), "fedbn", TRAINING, ragged())
    run.round()
    kept = run.store.get(next(c for c in range(6) if run.store.get(c) is not None))
    assert kept is not None
    held = {t.untyped_storage().data_ptr(): t for ts in kept.extras.values() for t in ts.values()}
    weights = sum(p.nbytes for p in run.engine.trainer.model.model.parameters())
    assert sum(t.untyped_storage().nbytes() for t in held.values()) < weights / 4


@pytest.mark.fast
def test_runs_with_different_labels_and_rates_in_one_stack() -> None:
    """Concept shift differs by seed; learning rates, batch sizes and epochs may differ too."""
    base = ragged()
    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    pairs = []
    for seed in range(3):
        training = Training(epochs=1 + seed, batch_size=4 + seed, lr=0.02 * (seed + 1))
        shifting = ConceptShift(base, seed, 0.9)
        pairs.append(
            [
                simulation(e, build(mlp, seed), "fedfor", training, shifting, seed)
                for e in (shared, SerialEngine)
            ]
        )
    assert_same_after_three_rounds(pairs)


@pytest.mark.fast
def test_memory_that_runs_out_halves_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Trainer._train_together
    sizes: list[int] = []

    def short_of_memory(self: Trainer, tasks: Any, chunk: Any) -> Any:
        sizes.append(len(chunk.lanes))
        if len(chunk.lanes) > 1:
            raise torch.OutOfMemoryError("no more")
        return whole(self, tasks, chunk)

    theirs = simulation(SerialEngine, build(mlp), "fedfor", TRAINING, ragged())
    theirs.round()
    monkeypatch.setattr(Trainer, "_train_together", short_of_memory)
    ours = simulation(VectorEngine, build(mlp), "fedfor", TRAINING, ragged())
    ours.round()
    assert sizes == [4, 2, 1, 1, 2, 1, 1]
    assert_same(ours, theirs)


@pytest.mark.fast
def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    clients = ragged()
    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    trainings = [TRAINING, Training(epochs=3, lr=1e200), TRAINING]
    runs = [
        simulation(shared, build(mlp), name, training, clients)
        for name, training in zip(("fedavg", "fedavg", "fedprox"), trainings, strict=True)
    ]
    ended: dict[int, object] = {}
    drive_together([r.steps() for r in runs], ended.__setitem__)
    assert isinstance(ended[1], DivergedError)
    assert "sent model: NaN or infinity" in str(ended[1])
    assert all(isinstance(ended[i], dict) for i in (0, 2))


def test_the_random_state_of_the_caller_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3)).double()
    torch.random.set_rng_state(before)
    run = simulation(VectorEngine, model, "fedavg", TRAINING, ragged())
    run.round()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.random.set_rng_state(state)


def test_planning_ahead_changes_nothing() -> None:
    """Rounds planned ahead, as on a GPU, are the rounds that come."""
    plain = simulation(VectorEngine, build(mlp), "scaffold", TRAINING, ragged())
    ahead = simulation(VectorEngine, build(mlp), "scaffold", TRAINING, ragged())
    for _ in range(3):
        plain.round()
        steps = ahead.steps()
        work = next(steps)
        assert isinstance(work, Train)
        task = ahead.engine.task(work.message, work.jobs, work.ahead)  # type: ignore[union-attr]
        trainer = ahead.engine.trainer  # type: ignore[union-attr]
        for _, result in trainer.train([task]):
            work.take(result)
        trainer._plan_ahead([task])
        assert trainer._planned
        evaluated = next(steps)
        assert isinstance(evaluated, Evaluate)
        with pytest.raises(StopIteration):
            steps.send(ahead.engine.evaluate(evaluated.exams))
    assert_same(plain, ahead)


def test_traces_of_batches_of_all_sizes() -> None:
    """Many rounds of cohorts unlike each other: a trace is used again only where it holds."""
    training = Training(epochs=5, batch_size=7, lr=0.01)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        clients = ragged([int(n) for n in draw.choice([5, 12, 7, 20], 8)])
        assert_same(*both(build(linear), "fedavg", training, clients, rounds=8))


def test_a_run_that_fails_leaves_those_beside_it_alone(split: DataSplit) -> None:
    """One run's client has a single sample, which batch norm cannot take."""
    trainer = Trainer(
        build_model("cnn-bn", (1, 8, 8), 3), nn.functional.cross_entropy, torch.device("cpu")
    )
    training = Training(batch_size=4)
    runs = []
    for sizes in ((8, 9, 6, 5), (8, 1, 6, 5), (7, 8, 9, 10)):
        model, chosen = build_model("cnn-bn", (1, 8, 8), 3), algorithm("fedavg")
        clients = Partition(split, [np.arange(n) for n in sizes])
        worker = VectorEngine(model, chosen, training, 0, trainer=trainer)
        runs.append(Simulation(clients, model, chosen, training, worker, cohort=4, seed=0))
    ended: dict[int, object] = {}
    drive_together([r.steps() for r in runs], ended.__setitem__)
    assert "client 1 has a single sample" in str(ended[1])
    assert all(isinstance(ended[i], dict) for i in (0, 2))


@dataclass(frozen=True)
class Faulty(ClientOpt):
    name: ClassVar[str] = "faulty"

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        raise ValueError("a fault of its own")


def test_a_fault_in_a_method_ends_its_run_alone() -> None:
    """Whatever the error: those beside it go on."""
    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = ragged()
    runs = [simulation(shared, build(mlp), "fedavg", TRAINING, clients) for _ in range(3)]
    runs[1].engine.algorithm = as_algorithm(Faulty())  # type: ignore[union-attr]
    ended: dict[int, object] = {}
    drive_together([run.steps() for run in runs], ended.__setitem__)
    assert isinstance(ended[1], ValueError)
    alone = simulation(SerialEngine, build(mlp), "fedavg", TRAINING, clients)
    alone.round()
    assert_same(runs[0], alone)
    assert_same(runs[2], alone)
