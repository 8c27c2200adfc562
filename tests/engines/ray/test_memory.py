"""Workers that run out of memory."""

import functools
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from fedfor.algorithms import algorithm
from fedfor.engines import Training
from fedfor.engines.clustered import Clustered, Within, make_ray_engine
from fedfor.engines.fisher import Loss
from fedfor.experiments.simulation import Simulation
from fedfor.experiments.store import MemoryStore

from ..stacks import ragged
from .conftest import Nodes
from .deadly import Hungry, killing

pytestmark = pytest.mark.usefixtures("patient")

TRAINING = Training(epochs=1, batch_size=7, lr=0.05)


def simulation(
    address: str, within: Within, loss: Loss = nn.functional.cross_entropy
) -> Simulation:
    torch.manual_seed(0)
    model, chosen = Hungry(64, 3).double(), algorithm("fedfor")
    population, store = ragged((9,) * 16), MemoryStore()
    how = Clustered(address, 1, within, block=8)
    engine = make_ray_engine(how, population, model, chosen, TRAINING, 0, store, loss, cohort=16)
    return Simulation(population, model, chosen, TRAINING, engine, cohort=16, seed=0, store=store)


def test_a_worker_that_runs_out_of_memory_halves_its_stack(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    models = []
    for within in ("vector", "serial"):
        run = simulation(nodes.address, within)
        try:
            records = [run.round() for _ in range(2)]
        finally:
            run.engine.close()
        models.append(run.server.model)
        # The stack of 8, and both of 4; after that it knows.
        expected = [3, None] if within == "vector" else [None, None]
        assert [record.get("stacks_halved") for record in records] == expected
    for name, tensor in models[1].items():
        torch.testing.assert_close(models[0][name], tensor, rtol=1e-9, atol=1e-9)
    lines = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert lines == ["worker 0 ran out of memory: it trains 2 clients at a time from now on"]


def test_after_two_that_were_killed_workers_train_half_as_many(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Which is what the system does where memory runs out before torch has noticed."""
    loss = functools.partial(killing, flag=tmp_path / "killed", times=2)
    run = simulation(nodes.address, "serial", loss)
    try:
        record = run.round()
        assert record["workers_lost"] == 2
        assert run.engine.pool.crew.lanes == 32  # type: ignore[attr-defined]
    finally:
        run.engine.close()
