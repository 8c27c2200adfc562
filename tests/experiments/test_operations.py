"""The server's side of a round is a few operations, however many parameters a model has.

Each is started from Python, and on a GPU takes longer to start than to do.
"""

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedfor.engines.vector import Trainer, VectorEngine
from fedfor.engines.vector.runner import Program
from fedfor.experiments.simulation import Simulation
from fedfor.experiments.together import drive_together
from fedfor.experiments.work import Train
from fedfor.models import resnet20

from ..engines.stacks import TRAINING, build, ragged, simulation

MOST = 150


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Views, which do nothing on a device, are counted by themselves."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = self.views = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.is_view:
            self.views += 1
        else:
            self.operations += 1
        return func(*args, **(kwargs or {}))


def deep(layers: int) -> nn.Module:
    torch.manual_seed(0)
    middle = [m for _ in range(layers) for m in (nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), *middle, nn.Linear(6, 3)).double()


def counted(run: Simulation) -> Counted:
    """What the server does in the third round: what clients send, then the step."""
    for _ in range(2):
        run.round()
    steps = run.steps()
    work = next(steps)
    assert isinstance(work, Train)
    results = list(work.engine.train(work.message, work.jobs))
    count = Counted()
    with count:
        for result in results:
            work.take(result)
        next(steps)
    return count


@pytest.mark.parametrize("name", ["fedavg", "fedfor", "fedprox", "fedadam", "fedfor+fedbn"])
def test_the_server_does_as_much_for_many_parameters_as_for_few(name: str) -> None:
    few, many = (
        counted(simulation(VectorEngine, deep(layers), name, TRAINING, ragged((12,) * 6)))
        for layers in (2, 9)
    )
    assert many.operations == few.operations
    assert few.operations > 0


@pytest.mark.parametrize("name", ["fedavg", "fedfor", "fedprox"])
def test_the_server_side_of_a_resnet_is_small(name: str) -> None:
    run = simulation(VectorEngine, build(resnet20), name, TRAINING, ragged((12,) * 6))
    found = counted(run)
    assert found.operations + found.views < MOST


def outside_of_training(layers: int, names: Sequence[str]) -> int:
    """Operations of a round of several runs in one stack, but for the local steps."""
    trainer = Trainer(deep(layers), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = ragged((12,) * 6)
    runs = [simulation(shared, deep(layers), name, TRAINING, clients) for name in names]
    for _ in range(2):
        drive_together([run.steps(evaluate=False) for run in runs], lambda i, end: None)
    count = Counted()
    with count:
        drive_together([run.steps(evaluate=False) for run in runs], lambda i, end: None)
    return count.operations


def test_one_run_more_costs_no_more_for_many_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "__call__", lambda *args: None)
    few, many = (
        outside_of_training(layers, ["fedfor"] * 4) - outside_of_training(layers, ["fedfor"] * 2)
        for layers in (2, 9)
    )
    assert few == many
