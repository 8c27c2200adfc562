"""What cannot be trained together is told, or trained one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import CLIENT_OPTS, ClientOpt, Local, Named, Outcome, algorithm
from fedfor.data import DataSplit, LabelledData, Partition
from fedfor.engines.choose import make_engine
from fedfor.engines.vector.elementwise import require_elementwise
from fedfor.errors import ConfigError, DataError
from fedfor.experiments.simulate import simulate
from fedfor.models import build_model

from .stacks import TRAINING

pytestmark = pytest.mark.fast


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
    with pytest.raises(
        ConfigError, match="cannot use shrink, which makes of a weight what depends"
    ):
        simulate(Shrink(), population, "mlp", rounds=1, engine="vector")
    with pytest.warns(UserWarning, match="cannot use shrink"):
        simulate(Shrink(), population, "mlp", rounds=1)


@dataclass(frozen=True)
class Clipped(ClientOpt):
    """Sends a move of bounded length."""

    name: ClassVar[str] = "clipped"
    most: float = 0.01

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        move = w - w0
        return Outcome(w0 + move * torch.clamp(self.most / move.norm(), max=1.0))


@dataclass(frozen=True)
class Matrices(ClientOpt):
    """Decays matrices, and nothing else."""

    name: ClassVar[str] = "matrices"

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor | None:
        return 0.1 * w if w.ndim > 1 else None


@dataclass(frozen=True)
class Numbers(ClientOpt):
    """Wants plain numbers."""

    name: ClassVar[str] = "numbers"

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        return Outcome(w0 + (w - w0) / float(local.steps))


@dataclass(frozen=True)
class Careless(ClientOpt):
    """Changes what it is given."""

    name: ClassVar[str] = "careless"

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor | None:
        w.mul_(0.999)
        return None


BAD = [Clipped(), Clipped(most=6.0), Clipped(most=100.0), Matrices(), Numbers(), Careless()]


@pytest.mark.parametrize("client", BAD, ids=lambda c: c.name)
def test_all_that_a_client_opt_does_is_looked_at(client: ClientOpt) -> None:
    with pytest.raises(ConfigError, match=f"cannot use {client.name}"):
        require_elementwise(client)


def test_our_own_methods_are_elementwise() -> None:
    for name in CLIENT_OPTS:
        require_elementwise(algorithm(name).client)


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


class Always(nn.Module):
    """Drops in evaluation, too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(nn.functional.dropout(x.flatten(1), 0.5))
        return y


class Beside(Always):
    """Drops what samples have to do with one another."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x.flatten(1))
        shares = nn.functional.dropout((y @ y.T).softmax(1), 0.5, self.training)
        return shares @ y


class Mixed(Always):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x.flatten(1).float())
        return y * self.scale


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Always, "dropout that is on in evaluation"),
        (Beside, "shape depends on the size of the batch"),
        (Mixed, "parameters of different types"),
    ],
)
def test_models_that_would_not_be_alike_are_refused(
    split: DataSplit, make: type[nn.Module], words: str
) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match=words):
        simulate("fedavg", population, make(), rounds=1, engine="vector")


def test_words_that_no_table_has(split: DataSplit) -> None:
    """Not to be looked up in the table of the next client."""

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 3)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.table(x)
            return found.mean(1)

    for word in (10, -1):
        x = torch.zeros(20, 4, dtype=torch.int64)
        x[12, 2] = word
        data = LabelledData("words", x, torch.arange(20) % 3, 3)
        clients = [np.arange(i, i + 5) for i in (5, 10, 15)]
        population = Partition(DataSplit(data, data), clients)
        with pytest.raises(IndexError):
            simulate("fedavg", population, Looks(), rounds=1, engine="vector", batch_size=5)


def test_losses_that_do_not_bear_padding_are_serial_on_a_cpu(split: DataSplit) -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 5.0]))
    few = (split.train.x[:4], split.train.y[:4])
    model = build_model("linear", (1, 8, 8), 3)
    engine = make_engine("vector", model, algorithm("fedavg"), TRAINING, 0, loss, sample=few)
    assert engine.name == "serial"


def test_decay_and_what_takes_no_part_in_training(split: DataSplit) -> None:
    """Only a training step tells which parameters those are."""

    class Auxiliary(nn.Module):
        def __init__(self, when: bool) -> None:
            super().__init__()
            self.linear, self.other, self.when = nn.Linear(64, 3), nn.Linear(64, 3), when

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.linear(x.flatten(1))
            return y + self.other(x.flatten(1)) if self.training is self.when else y

    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    how: dict[str, Any] = {"rounds": 1, "engine": "vector", "options": {"weight_decay": 0.1}}
    simulate("fedavg", population, Auxiliary(True), **how)
    with pytest.raises(ConfigError, match=r"would shrink parameter 'other\.weight'"):
        simulate("fedavg", population, Auxiliary(False), **how)
