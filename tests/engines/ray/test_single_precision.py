"""In float32, as runs are, beside one client after another."""

import functools
import itertools
from typing import TYPE_CHECKING, cast

import pytest
import torch

from fedfor.data import DirichletDraws, Population, digits
from fedfor.engines import SerialEngine, Training
from fedfor.engines.clustered import Clustered, Within, make_ray_engine
from fedfor.experiments.simulation import Simulation
from fedfor.experiments.store import MemoryStore
from fedfor.models import build_model
from fedfor.tensors import Tensors

from ..stacks import everything, parse
from .conftest import Nodes

if TYPE_CHECKING:
    from fedfor.engines.ray.engine import RayEngine

TRAINING = Training(epochs=1, batch_size=10, lr=0.05)
COHORT, ROUNDS = 12, 3
NAMES = ("fedfor", "scaffold+fedavgm")
WITHIN: tuple[Within, ...] = ("serial", "vector")


@functools.cache
def population() -> Population:
    return DirichletDraws(digits(), 1000, 0, 0.3, 30)


def simulation(name: str, how: Clustered | None) -> Simulation:
    torch.manual_seed(0)
    model, chosen, store = build_model("mlp", (1, 8, 8), 10), parse(name), MemoryStore()
    what = (model, chosen, TRAINING)
    engine = (
        SerialEngine(*what, 0)
        if how is None
        else make_ray_engine(how, population(), *what, 0, store, cohort=COHORT)
    )
    return Simulation(population(), *what, engine, cohort=COHORT, seed=0, store=store)


def trained(run: Simulation) -> Tensors:
    for _ in range(ROUNDS):
        run.round()
    return everything(run)


@functools.cache
def on_cluster(address: str, workers: int) -> dict[tuple[str, Within], Tensors]:
    """All of them on the same workers."""
    runs, pool = dict[tuple[str, Within], Simulation](), None
    for name, within in itertools.product(NAMES, WITHIN):
        run = simulation(name, Clustered(address, workers, within, pool=pool))
        pool = cast("RayEngine", run.engine).pool
        runs[name, within] = run
    try:
        return {key: trained(run) for key, run in runs.items()}
    finally:
        for run in runs.values():
            run.engine.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("within", WITHIN)
def test_any_number_of_workers_is_serial_to_a_millionth(
    nodes: Nodes, name: str, within: Within
) -> None:
    expected = trained(simulation(name, None))
    one, *others = (on_cluster(nodes.address, workers)[name, within] for workers in (1, 2, 3))
    for key, tensor in expected.items():
        assert tensor.dtype == torch.float32 or not tensor.is_floating_point()
        assert all(torch.equal(one[key], other[key]) for other in others), key
        torch.testing.assert_close(one[key], tensor, rtol=1e-6, atol=1e-6, msg=key)
