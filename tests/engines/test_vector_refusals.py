"""What cannot be trained together is told, or trained one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import ClientOpt, Local, Named, algorithm
from fedfor.data import DataSplit, Partition
from fedfor.engines.choose import make_engine
from fedfor.errors import ConfigError, DataError
from fedfor.experiments.simulate import simulate
from fedfor.models import build_model

from .stacks import TRAINING


class Undecided(nn.Module):
    """Looks at its numbers to decide what to do, which no stack of models can."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x.flatten(1))
        return y if y.sum() > 0 else -y


def test_a_model_that_cannot_be_stacked_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match=r"cannot train copies of Undecided together .*'serial'"):
        simulate("fedavg", population, Undecided(), rounds=1, engine="vector")
    with pytest.warns(UserWarning, match="one client after another, because the vector engine"):
        history = simulate("fedavg", population, Undecided(), rounds=1)
    assert len(history.records) == 1


def test_an_optimizer_that_mixes_weights_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])

    def make(parameters: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr)

    for optimizer, words in ((make, "that a function makes"), ("adafactor", "Adafactor, which")):
        with pytest.raises(ConfigError, match=f"cannot use .*{words}"):
            simulate("fedavg", population, "mlp", rounds=1, engine="vector", optimizer=optimizer)


@dataclass(frozen=True)
class Shrink(ClientOpt):
    """Pulls all weights by their common length: not elementwise."""

    name: ClassVar[str] = "shrink"

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return w * (w - w0).norm()


def test_a_client_opt_that_is_not_elementwise_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match="cannot use shrink, whose added gradient"):
        simulate(Shrink(), population, "mlp", rounds=1, engine="vector")
    with pytest.warns(UserWarning, match="cannot use shrink"):
        simulate(Shrink(), population, "mlp", rounds=1)


def test_batch_norm_cannot_train_on_one_sample(split: DataSplit) -> None:
    population = Partition(split, [np.arange(6), np.array([7])])
    with pytest.raises(DataError, match="client 1 has a single sample, and batch norm"):
        simulate("fedavg", population, "cnn-bn", rounds=1, engine="vector", batch_size=3)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        y: Tensor = self.linear(x.flatten(1))
        return y


def test_models_that_would_be_trained_wrongly_are_refused(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 25)])
    sideways = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (8, 8)), nn.Flatten(0, 1), nn.Dropout())
    sideways.extend([nn.Linear(8, 3), nn.Unflatten(0, (-1, 8)), nn.Flatten(), nn.Linear(24, 3)])
    for model, words in (
        (Counting(), "a buffer that the forward replaces"),
        (sideways, "dropout on a tensor whose first axis is not the batch"),
    ):
        with pytest.raises(ConfigError, match=words):
            simulate("fedavg", population, model, rounds=1, engine="vector")
        with pytest.warns(UserWarning, match=words):
            simulate("fedavg", population, model, rounds=1)


@pytest.mark.parametrize("lanes", [0, -3, 2.5, "4"])
def test_bad_lanes_are_told(split: DataSplit, lanes: Any) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match="lanes must be"):
        simulate("fedavg", population, "mlp", rounds=1, lanes=lanes)


def test_precision_without_the_vector_engine_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.warns(UserWarning, match="precision 'bf16' is the vector engine's"):
        simulate("fedavg", population, "mlp", rounds=1, engine="serial", precision="bf16")


def test_one_client_is_trained_alone(split: DataSplit) -> None:
    """A stack of one gains nothing."""
    model = build_model("mlp", (1, 8, 8), 3)
    sample = (split.train.x[:4], split.train.y[:4])
    for cohort, name in ((1, "serial"), (2, "vector")):
        made = make_engine(
            "auto", model, algorithm("fedavg"), TRAINING, 0, cohort=cohort, sample=sample
        )
        assert made.name == name
