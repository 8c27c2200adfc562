"""Runs of both engines on ragged clients in float64, and whether they are the same."""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfor.algorithms import Algorithm, algorithm
from fedfor.data import DataSplit, LabelledData, Partition, Population
from fedfor.engines import SerialEngine, Training
from fedfor.engines.stacking import DEFAULT, Stacking
from fedfor.engines.vector import VectorEngine
from fedfor.experiments.simulation import Record, Simulation
from fedfor.tensors import Tensors

from ..conftest import made_data

ALGORITHMS = (
    "fedavg",
    "fedprox",
    "fedfor",
    "fedfor,clip=false",
    "fedcurv",
    "feddyn",
    "fedpd",
    "scaffold",
    "fedavgm",
    "slowmo",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "fedfor+fedadam",
    "fedfor,weighting=examples",
    "fedfor,send=int8",
    "fedfor,send=sign",
)


WITH_BATCH_NORM = ("fedbn", "fedfor+fedbn", "scaffold+fedbn", "fedcurv+fedavgm+fedbn")


RAGGED = (4, 18, 11, 25, 5, 12)
"""Samples of each client. With batches of 7, none has 2 in a batch: there batch norm gives -1 and
1 whatever the weights, their gradient is rounding noise, and so is the side on which FedFOR's
penalty, which jumps at 0, finds them."""


def norm_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """With one batch norm: a second would take out what the first one's bias adds wherever ReLU
    lets all of it through, a gradient of 0 up to rounding; see above."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, classes),
    )


def double(split: DataSplit) -> DataSplit:
    parts = [LabelledData(d.name, d.x.double(), d.y, d.classes) for d in (split.train, split.test)]
    return DataSplit(*parts)


def ragged(sizes: Sequence[int] = RAGGED, samples: int = 90) -> Partition:
    draw = np.random.default_rng(0)
    split = double(made_data(samples))
    return Partition(split, [draw.choice(samples, n, replace=False) for n in sizes])


def parse(text: str) -> Algorithm:
    name, *settings_ = text.split(",")
    values = {"false": False}
    options = dict(s.split("=") for s in settings_)
    return algorithm(name, **{k: values.get(v, v) for k, v in options.items()})


def simulation(
    engine: Callable[..., SerialEngine | VectorEngine],
    model: nn.Module,
    name: str,
    training: Training,
    population: Population,
    seed: int = 0,
) -> Simulation:
    model, chosen = copy.deepcopy(model), parse(name)
    worker = engine(model, chosen, training, seed)
    return Simulation(population, model, chosen, training, worker, cohort=4, seed=seed)


def build(make: Callable[..., nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return make((1, 8, 8), 3).double()


def everything(run: Simulation) -> Tensors:
    """All that a run is made of: the server's state and the clients'."""
    found = {f"{e}/{n}": t for e, ts in run.server.state().items() for n, t in ts.items()}
    for client in range(run.population.size):
        kept = run.store.get(client)
        for extra, tensors in (kept.extras if kept else {}).items():
            found |= {f"client {client}/{extra}/{name}": t for name, t in tensors.items()}
    return {name: t.cpu() for name, t in found.items()}


def assert_same(ours: Simulation, theirs: Simulation, tolerance: float = 1e-9) -> None:
    mine, reference = everything(ours), everything(theirs)
    assert mine.keys() == reference.keys()
    for name, tensor in reference.items():
        torch.testing.assert_close(mine[name], tensor, rtol=tolerance, atol=tolerance, msg=name)


def assert_same_records(ours: Sequence[Record], theirs: Sequence[Record]) -> None:
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine.keys() == reference.keys()
        for key, value in reference.items():
            # A weight that nobody moved has a last global move of rounding noise, of either sign.
            slack = {"abs": 2e-4} if key == "opposing" else {"rel": 1e-5}
            close = pytest.approx(value, **slack) if isinstance(value, float) else value
            assert mine[key] == close, key


TRAINING = Training(epochs=2, batch_size=7, lr=0.05, lr_decay=0.9)


@functools.cache
def reference(
    make: Callable[..., nn.Module], name: str, rounds: int = 3, epochs: int = 2
) -> tuple[Simulation, list[Record]]:
    training = replace(TRAINING, epochs=epochs)
    run = simulation(SerialEngine, build(make), name, training, ragged())
    return run, [run.round() for _ in range(rounds)]


def both(
    model: nn.Module,
    name: str = "fedfor",
    training: Training = TRAINING,
    population: Population | None = None,
    rounds: int = 2,
    stacking: Stacking = DEFAULT,
) -> tuple[Simulation, Simulation]:
    """The same run on the vector engine and on the serial one."""
    clients = ragged() if population is None else population
    vector = functools.partial(VectorEngine, stacking=stacking)
    runs = [simulation(e, model, name, training, clients) for e in (vector, SerialEngine)]
    for run in runs:
        for _ in range(rounds):
            run.round()
    return runs[0], runs[1]
