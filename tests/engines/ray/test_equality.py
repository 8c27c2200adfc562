"""The same numbers as one client after another, for any number of workers and any slices."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fedfor.engines.clustered import Clustered, Within, make_ray_engine
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.store import MemoryStore
from fedfor.experiments.together import drive_together
from fedfor.models import build_model

from ..stacks import (
    ALGORITHMS,
    TRAINING,
    WITH_BATCH_NORM,
    assert_same,
    assert_same_records,
    build,
    everything,
    norm_cnn,
    parse,
    ragged,
    reference,
)
from .conftest import Nodes

ROUNDS = 3
WITHIN: tuple[Within, ...] = ("serial", "vector")
MAKE = functools.partial(build_model, "linear")
MODELS = {**dict.fromkeys(ALGORITHMS, MAKE), **dict.fromkeys(WITH_BATCH_NORM, norm_cnn)}


Way = tuple[str, Within]
"""A method, and how a worker trains its slices."""


@functools.cache
def on_cluster(address: str, workers: int) -> dict[Way, Any]:
    """All methods as a sweep in step on so many workers: each one's run and records."""
    runs, pool = dict[Way, Simulation](), None
    for (name, make), within in itertools.product(MODELS.items(), WITHIN):
        model, store, population = build(make), MemoryStore(), ragged()
        chosen = parse(name)
        how = Clustered(address, workers, within, block=2, pool=pool)
        engine = make_ray_engine(how, population, model, chosen, TRAINING, 0, store, cohort=4)
        pool = engine.pool
        runs[name, within] = Simulation(
            population, model, chosen, TRAINING, engine, cohort=4, seed=0, store=store
        )
    records: dict[Way, list[Record]] = {way: [] for way in runs}
    problems: list[Exception] = []

    def ended(place: int, end: Record | Exception) -> None:
        if isinstance(end, Exception):
            problems.append(end)
        else:
            records[list(runs)[place]].append(end)

    try:
        for _ in range(ROUNDS):
            drive_together([run.steps() for run in runs.values()], ended)
            assert not problems
    finally:
        for run in runs.values():
            run.engine.close()
    return {way: (run, records[way]) for way, run in runs.items()}


def plain(records: Sequence[Record]) -> list[Record]:
    """Without what the cluster tells of itself."""
    own = ("workers", "workers_lost", "slices_repeated")
    return [{k: v for k, v in r.items() if k not in own} for r in records]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_one_after_another_on_workers_is_serial_to_the_bit(
    nodes: Nodes, name: str, workers: int
) -> None:
    ours, records = on_cluster(nodes.address, workers)[name, "serial"]
    theirs, expected = reference(MODELS[name], name)
    assert_identical(ours, theirs)
    assert plain(records) == expected


@pytest.mark.parametrize("name", MODELS)
def test_stacks_are_the_same_on_any_number_of_workers(nodes: Nodes, name: str) -> None:
    ours, records = on_cluster(nodes.address, 1)[name, "vector"]
    for workers in (2, 3):
        others, told = on_cluster(nodes.address, workers)[name, "vector"]
        assert_identical(others, ours)
        assert plain(told) == plain(records)
    theirs, expected = reference(MODELS[name], name)
    assert_same(ours, theirs)
    assert_same_records(plain(records), expected)


def assert_identical(ours: Simulation, theirs: Simulation) -> None:
    mine, reference = everything(ours), everything(theirs)
    assert mine.keys() == reference.keys()
    for name, tensor in reference.items():
        assert torch.equal(mine[name], tensor), name
