"""The Fisher diagonals of a stack of clients, against single gradients in a plain loop."""

import copy
import functools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.data import LabelledData, Samples
from fedfor.engines.fisher import Loss
from fedfor.engines.vector import Trainer, fisher
from fedfor.engines.vector.step import State
from fedfor.models import build_model

from ..conftest import made_data

WIDEST = 11
"""Samples of the largest client."""


def by_hand(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """The mean over samples of each one's squared gradient."""
    model.eval()
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for i in range(len(y)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            if p.grad is not None:
                sums[name] += p.grad.square()
    return {name: s / len(y) for name, s in sums.items()}


def images(shape: tuple[int, ...], count: int = 20) -> LabelledData:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, *shape, generator=draw, dtype=torch.float64)
    return LabelledData("drawn", x, torch.arange(count) % 3, 3)


def ragged(data: LabelledData, relabel: Sequence[int] | None = None) -> list[Samples]:
    """Three clients with unlike numbers of samples, the last with other labels."""
    last = None if relabel is None else torch.tensor(relabel)
    rows = ([0], list(range(1, 1 + WIDEST)), list(range(12, 19)))
    named = [np.array(of_client, dtype=np.int64) for of_client in rows]
    return [*(Samples(data, r) for r in named[:2]), Samples(data, named[2], last)]


def assert_as_by_hand(
    make: Callable[[], nn.Module],
    samples: Sequence[Samples],
    loss: Loss = nn.functional.cross_entropy,
) -> Trainer:
    torch.manual_seed(0)
    models = [make().double() for _ in samples]
    data = samples[0].data
    for model in models:
        model(data.x)  # statistics that are not those of a new layer
    trainer = Trainer(copy.deepcopy(models[0]), loss, torch.device("cpu"))
    trainer.check(data.x[:4], data.y[:4])
    layout = trainer.model.layout
    rows = [layout.row(dict(m.named_parameters()), trainer.model.like) for m in models]
    buffers = {
        n: torch.stack([dict(m.named_buffers())[n] for m in models])
        for n in trainer.model.buffer_names
    }
    state = State(torch.stack(rows).detach(), buffers, torch.zeros(len(models)).double())
    found = fisher.stacked_fisher(trainer.model, state, samples, trainer.data, trainer.compiler)
    for place, (model, some) in enumerate(zip(models, samples, strict=True)):
        expected = by_hand(model, loss, *some.all())
        for name, tensor in layout.split(found[place : place + 1]).items():
            torch.testing.assert_close(tensor[0], expected[name], rtol=1e-9, atol=1e-14, msg=name)
    return trainer


def small_norm_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)
    )


@pytest.mark.parametrize("at_once", [2**25, 4000, 1], ids=["whole", "chunks", "one by one"])
@pytest.mark.parametrize("batches", [True, False], ids=["batches", "single samples"])
def test_of_clients_with_unlike_numbers_of_samples(
    at_once: int, batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limits in (fisher.AT_ONCE, fisher.BATCHES):
        monkeypatch.setitem(limits, "cpu", at_once)
    if not batches:
        monkeypatch.setattr(fisher, "squares_agree", lambda *_: False)
    split = made_data(40)
    data = LabelledData("double", split.train.x.double(), split.train.y, 3)
    trainer = assert_as_by_hand(small_norm_cnn, ragged(data, relabel=[1, 2, 0]))
    assert trainer.model.squares is batches


class Residual(nn.Module):
    """Convolutions of all kinds, an input that two layers take, norms with and without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False)
        self.b = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=1, groups=2)
        self.c = nn.Conv2d(4, 4, 2, dilation=2)
        self.norm = nn.BatchNorm2d(4)
        self.plain = nn.BatchNorm2d(4, affine=False)
        self.head = nn.Linear(4, 3, bias=False)
        self.never = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.a(x)) + self.plain(self.b(x))
        y: Tensor = self.head(torch.relu(self.c(h)).mean((2, 3)))
        return y


def deep(axes: int) -> nn.Module:
    layer = {1: nn.Conv1d, 3: nn.Conv3d}[axes]
    return nn.Sequential(layer(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.LazyLinear(3))


def lazily(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model = make()
        model(torch.zeros(2, *shape))
        return model

    return made


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (Residual, (2, 7, 6)),
        (lambda: deep(1), (2, 5)),
        (lambda: deep(3), (2, 3, 4, 3)),
        *(
            (lambda name=name, shape=shape: build_model(name, shape, 3), shape)
            for name, shape in (
                ("linear", (1, 6, 6)),
                ("mlp", (1, 6, 6)),
                ("cnn", (1, 8, 8)),
                ("cnn-bn", (1, 8, 8)),
                ("resnet20", (3, 8, 8)),
                ("digits-net", (3, 4, 4)),
            )
        ),
    ],
    ids=["all kinds", "1-d", "3-d", "linear", "mlp", "cnn", "cnn-bn", "resnet20", "digits-net"],
)
def test_whole_batches_do_for_layers_that_are_known(
    make: Callable[[], nn.Module], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fisher.Fisher, "of_single_samples", None)
    assert assert_as_by_hand(lazily(make, shape), ragged(images(shape))).model.squares


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.second(torch.tanh(self.first(x))))
        return y


class Twice(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.layer(torch.tanh(self.layer(x))))
        return y


class Bare(nn.Module):
    """A parameter that is no layer's own, in many ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        shapes = {"transposed": (6, 3), "one bias": (1,), "torchscript": ()}
        self.p = nn.Parameter(torch.randn(shapes.get(how, (4, 6))))
        self.register_buffer("b", torch.randn(WIDEST, 6))
        self.head = nn.Linear(6, 3, bias=how != "one bias")

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "transposed":
            return nn.functional.linear(x, self.p.T)
        if self.how == "one bias":
            return nn.functional.linear(x, self.head.weight, self.p)
        if self.how == "torchscript":
            return scripted()(self.head(x), self.p)
        y: Tensor = self.head(x)
        if self.how == "factor":
            return y * self.p.sum()
        if self.how == "keyword":
            return y * nn.functional.linear(input=self.p, weight=x).mean(0)[:, None]
        assert self.how == "fixed axis"  # of just the size of the largest client
        return nn.functional.linear(x, self.head(self.b).mean(0).expand(3, 6 // 2).repeat(1, 2))


def scaled(y: Tensor, p: Tensor) -> Tensor:
    return y * p


@functools.cache
def scripted() -> Callable[[Tensor, Tensor], Tensor]:
    found: Callable[[Tensor, Tensor], Tensor] = torch.jit.script(scaled)
    return found


class Mixing(nn.Module):
    """Each sample less the mean of all, in evaluation only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x if self.training or len(x) == 1 else x - x.mean(0))
        return y


class Positions(nn.Module):
    """A linear layer on each of several positions of a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.head = nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.norm(self.layer(x.view(len(x), 3, 2))).mean(1))
        return y


def same_padding() -> nn.Module:
    unflatten = nn.Unflatten(1, (1, 6))
    return nn.Sequential(
        unflatten, nn.Conv1d(1, 1, 3, padding="same"), nn.Flatten(), nn.Linear(6, 3)
    )


HOW = ["factor", "transposed", "one bias", "torchscript", "keyword", "fixed axis"]


@pytest.mark.parametrize(
    "make",
    [Tied, Twice, Positions, Mixing, same_padding,
     lambda: nn.Sequential(nn.Linear(6, 6), nn.PReLU()),
     *(lambda how=how: Bare(how) for how in HOW)],
    ids=["tied", "twice", "positions", "mixing", "padding", "prelu", *HOW],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_whatever_else_a_model_does_takes_single_samples(make: Callable[[], nn.Module]) -> None:
    trainer = assert_as_by_hand(make, ragged(images((6,))))
    assert trainer.model.squares is False


def test_a_model_that_mixes_samples_and_a_loss_that_is_no_mean_take_single_samples() -> None:
    samples = ragged(images((6,)))
    for change in ("pads", "loss"):
        trainer = Trainer(
            nn.Linear(6, 3).double(), nn.functional.cross_entropy, torch.device("cpu")
        )
        row = torch.zeros(3, trainer.model.layout.width).double()
        state = State(row, {}, torch.zeros(3).double())
        asked = fisher.Fisher(trainer.model, state, samples, trainer.data, trainer.compiler)
        assert asked.can_square()
        if change == "pads":
            trainer.model.pads = False
        else:
            trainer.model.loss.mean_of_samples = False
        assert not asked.can_square()


def test_frozen_parameters_take_no_part() -> None:
    def make() -> nn.Module:
        model = small_norm_cnn()
        for frozen in (model[0].weight, model[1].bias):
            nn.init.constant_(frozen, 0.3).requires_grad_(False)  # the same for all clients
        return model

    assert assert_as_by_hand(make, ragged(images((1, 8, 8)))).model.squares


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(label_smoothing=0.2), nn.MultiMarginLoss()])
def test_other_losses(loss: nn.Module) -> None:
    assert assert_as_by_hand(small_norm_cnn, ragged(images((1, 8, 8))), loss).model.squares
