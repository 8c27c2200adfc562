"""Whatever a model is made of, and however it is trained: the numbers of the serial engine."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import algorithm
from fedfor.data import DataSplit, Partition
from fedfor.engines import SerialEngine, Training
from fedfor.engines.choose import EngineName
from fedfor.engines.fisher import Loss
from fedfor.engines.vector import VectorEngine
from fedfor.engines.vector.loss import StackedLoss
from fedfor.engines.vector.model import StackedModel
from fedfor.engines.vector.trial import learn
from fedfor.errors import DivergedError
from fedfor.experiments.simulate import simulate
from fedfor.experiments.simulation import Simulation
from fedfor.models import mlp

from ..conftest import made_data
from .stacks import TRAINING, assert_same, both, build, norm_cnn, ragged

pytestmark = pytest.mark.fast


class Tokens(nn.Module):
    """Pixels as words: embedding, attention, layer norm, a residual, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = self.embedding((x.flatten(1)[:, ::8] * 4).long().clamp(-8, 7) + 8)
        attended, _ = self.attention(words, words, words, need_weights=False)
        words = self.norm(words + attended)
        words = words + self.second(torch.nn.functional.gelu(self.first(words)))
        return self.head(words.mean(dim=1))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x.flatten(1)) * self.scale
        return y


def twice() -> nn.Module:
    act, norm = nn.PReLU(), nn.BatchNorm1d(8)
    first, second = nn.Linear(64, 8, bias=False), nn.Linear(8, 8, bias=False)
    return nn.Sequential(nn.Flatten(), first, norm, act, second, norm, act, nn.Linear(8, 3))


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 4, 2, stride=2)
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = nn.functional.dropout(self.patches(x).flatten(2).mT, 0.4, self.training)
        y: Tensor = self.head(words.flatten(1))
        return y


MODELS: dict[str, Callable[[], nn.Module]] = {
    "group norm, depthwise, average pooling": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, padding="same"),
        nn.GroupNorm(2, 8),
        nn.Tanh(),
        nn.Conv2d(8, 8, 3, groups=8, dilation=2),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 3),
    ),
    "one dimension, transposed, instance norm": lambda: nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(1, 4, 5, stride=2),
        nn.InstanceNorm1d(4, affine=True),
        nn.ConvTranspose1d(4, 2, 3),
        nn.ELU(),
        nn.AdaptiveMaxPool1d(6),
        nn.Flatten(),
        nn.Linear(12, 3),
    ),
    "dropout of all kinds": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=False),
        nn.Dropout2d(0.4),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(96, 20),
        nn.Dropout(0.5, inplace=True),
        nn.Linear(20, 3),
    ),
    "batch norm in one dimension, without statistics": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 10, bias=False),
        nn.BatchNorm1d(10, affine=False),
        nn.LeakyReLU(),
        nn.Linear(10, 10, bias=False),
        nn.BatchNorm1d(10, track_running_stats=False),
        nn.Linear(10, 3),
    ),
    "embedding, attention, tied weights": Tokens,
    "a scalar": Scaled,
    "a module under two names": twice,
    "dropout in another order of axes": Turned,
    "frozen layers": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["fedavg", "fedfor,clip=false,strength=loss"])
def test_layers(kind: str, name: str) -> None:
    """Dropout too draws for a client what it would alone."""
    torch.manual_seed(0)
    model = MODELS[kind]().double()
    ours, theirs = both(model, name)
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        ("sgd", {"momentum": 0.5, "dampening": 0.3}),
        ("sgd", {"maximize": True, "weight_decay": 0.1}),
        ("adam", {}),
        ("AdamW", {"weight_decay": 0.1}),
        ("rmsprop", {"momentum": 0.5}),
        ("adagrad", {}),
    ],
)
def test_optimizers(optimizer: str, options: dict[str, float]) -> None:
    training = Training(epochs=2, batch_size=7, lr=0.01, optimizer=optimizer, options=options)
    assert_same(*both(build(mlp), "scaffold", training))


def test_images_are_changed_alike() -> None:
    training = Training(epochs=2, batch_size=7, lr=0.05, augment=["flip", "crop=2", "rotate=20"])
    ours, theirs = both(build(norm_cnn), "fedavg", training)
    assert_same(ours, theirs)
    plain, _ = both(build(norm_cnn), "fedavg", TRAINING)
    assert not torch.equal(plain.server.params["0.weight"], ours.server.params["0.weight"])


def test_a_loss_that_is_no_mean() -> None:
    """It bears no padding, so only clients with like batches are trained together."""

    def weighted(outputs: Tensor, y: Tensor) -> Tensor:
        weight = torch.tensor([1.0, 2.0, 5.0]).to(outputs)
        return nn.functional.cross_entropy(outputs, y, weight=weight)

    runs = []
    for engine in (VectorEngine, SerialEngine):
        model, chosen = build(mlp), algorithm("fedfor")
        worker = engine(model, chosen, TRAINING, 0, weighted)
        clients = ragged((4, 18, 18, 4, 9, 18))
        runs.append(Simulation(clients, model, chosen, TRAINING, worker, cohort=6, seed=0))
        for _ in range(2):
            runs[-1].round()
    assert not runs[0].engine.trainer.model.pads  # type: ignore[attr-defined]
    assert_same(*runs)


def test_another_loss_with_ragged_clients() -> None:
    def hinge(outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.multi_margin_loss(outputs, y)

    runs = []
    for engine in (VectorEngine, SerialEngine):
        model, chosen = build(mlp), algorithm("fedfor")
        worker = engine(model, chosen, TRAINING, 0, hinge)
        runs.append(Simulation(ragged(), model, chosen, TRAINING, worker, cohort=4, seed=0))
        for _ in range(2):
            runs[-1].round()
    assert_same(*runs)


class Centred(nn.Module):
    """Takes the mean over the batch out, by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear((x - x.mean(0)).flatten(1))
        return y


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4, padding_idx=2)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = (x.flatten(1)[:, ::4] * 2).long().clamp(-4, 4) + 4
        y: Tensor = self.linear(self.embedding(words).mean(1))
        return y


@pytest.mark.parametrize("make", [Centred, Words], ids=lambda m: m.__name__)
def test_models_that_padding_would_change(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    assert_same(*both(make().double(), "fedavg"))


def shared_activation() -> nn.Module:
    act = nn.PReLU()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), act, nn.Linear(8, 8), act, nn.Linear(8, 3))


@pytest.mark.parametrize("make", [Scaled, shared_activation], ids=lambda m: m.__name__)
def test_the_fisher_diagonal(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    assert_same(*both(make().double(), "fedcurv"))


def learned(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    stacked = StackedLoss(loss)
    stacked.learn(outputs, y)
    return stacked.mean_of_samples


def test_whether_a_loss_is_a_mean_is_asked_of_every_class() -> None:
    outputs, y = torch.zeros(4, 10), torch.arange(4)
    assert learned(nn.CrossEntropyLoss(), outputs, y)
    assert learned(nn.CrossEntropyLoss(label_smoothing=0.1), outputs, y)
    weight = torch.ones(10)
    weight[9] = 20
    assert not learned(nn.CrossEntropyLoss(weight=weight), outputs, y)
    assert not learned(nn.CrossEntropyLoss(ignore_index=7), outputs, y)
    assert not learned(nn.CrossEntropyLoss(reduction="sum"), outputs, y)
    flooded = nn.functional.cross_entropy
    assert not learned(lambda o, t: (flooded(o, t) - 0.1).abs() + 0.1, outputs, y)


def test_a_loss_that_wants_probabilities() -> None:
    outputs, y = torch.full((4, 3), 0.5), torch.eye(4)[:, :3]
    assert learned(nn.functional.binary_cross_entropy, outputs, y)


class Ema(nn.Module):
    """Its buffer moves by a hundredth of what the batch is like."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)
        self.register_buffer("var", torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training:
            self.var.mul_(0.99).add_(0.01 * x.detach().var(0))  # type: ignore[operator]
        y: Tensor = self.linear(x)
        return y


class Leaning(Scaled):
    """Leans a little towards the mean of its batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.005 * x.mean(0))


class Largest(Scaled):
    """In units of the largest in the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / x.abs().max())


class Hidden(Scaled):
    """Minds its batch in a branch that starts with no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.0))
        self.other = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = super().forward(x - x.mean(0)) + self.other(x.flatten(1))
        return y


class Counts(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.add_(len(x))  # type: ignore[operator]
        return super().forward(x)


UNPADDED = [Ema, Leaning, Largest, Hidden, Counts]


@pytest.mark.parametrize("make", UNPADDED, ids=lambda m: m.__name__)
def test_padding_that_changes_little_is_found(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = StackedModel(make(), nn.functional.cross_entropy, torch.device("cpu"))
    learn(model, torch.randn(4, 1, 8, 8), torch.arange(4) % 3)
    assert not model.pads
    assert_same(*both(make().double()))


def test_a_mask_of_infinities_is_no_divergence() -> None:
    class Masked(Scaled):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.tensor([0.0, 0.0, -torch.inf]))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.mask.exp()  # type: ignore[operator]

    assert_same(*both(Masked().double()))


def test_scores_are_alike_whatever_a_model_does_with_a_batch() -> None:
    """Batch norm without statistics tests a sample by those beside it."""
    data = made_data(2500)
    tested = DataSplit(data.train, data.train)
    population = Partition(tested, [np.arange(20), np.arange(20, 40)])
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(64, track_running_stats=False)
    model = nn.Sequential(nn.Flatten(), norm, nn.Linear(64, 3))
    runs = [simulate("fedavg", population, copy.deepcopy(model), rounds=1, engine=engine)
            for engine in ("vector", "serial")]  # fmt: skip
    assert runs[0].records[0]["loss"] == pytest.approx(runs[1].records[0]["loss"], rel=1e-6)
    assert runs[0].records[0]["accuracy"] == runs[1].records[0]["accuracy"]


def test_long_and_short_clients_of_other_optimizers_are_not_together() -> None:
    """Their stacks do not shrink, so nearly all of one would wait for the longest."""
    population = ragged((60, 4, 5, 4, 40, 6))
    training = Training(epochs=2, batch_size=4, optimizer="adam", lr=0.01)
    ours, theirs = both(build(mlp), "fedavg", training, population)
    assert_same(ours, theirs, 1e-7)
    assert ours.engine.about["together"] < 4  # type: ignore[operator]


class Overflowing(Scaled):
    """A buffer becomes infinite on a client whose images are bright."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            bright = (x.detach().mean() - 50).clamp(min=0)
            self.seen.add_(torch.where(bright > 0, torch.inf, 0.0))  # type: ignore[operator]
        return super().forward(x)


@pytest.mark.parametrize("engine", ["serial", "vector"])
def test_a_buffer_alone_that_is_not_finite_is_told(engine: EngineName) -> None:
    split = made_data()
    split.train.x[20:40] += 100
    population = Partition(split, [np.arange(a, a + 20) for a in (0, 20, 40)])
    with pytest.raises(DivergedError, match="client 1 sent model: NaN or infinity in 'seen'"):
        simulate("fedavg", population, Overflowing(), rounds=1, engine=engine, lr=1e-6)
