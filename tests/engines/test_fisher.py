"""The Fisher diagonals of a stack of clients, against single gradients in a plain loop."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedfor.engines.vector import Trainer, fisher
from fedfor.engines.vector.step import State

from ..conftest import made_data


def by_hand(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mean over samples of each one's squared gradient."""
    model.eval()
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for i in range(len(y)):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            assert p.grad is not None
            sums[name] += p.grad.square()
    return {name: s / len(y) for name, s in sums.items()}


@pytest.mark.parametrize("at_once", [2**25, 4000, 1], ids=["whole", "chunks", "one by one"])
def test_of_clients_with_unlike_numbers_of_samples(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fisher.AT_ONCE, "cpu", at_once)
    split = made_data(40)
    data = type(split.train)("double", split.train.x.double(), split.train.y, 3)
    torch.manual_seed(0)
    models = [
        nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)
        ).double()
        for _ in range(3)
    ]
    for model in models:
        model(data.x)  # statistics that are not those of a new layer
    trainer = Trainer(copy.deepcopy(models[0]), nn.functional.cross_entropy, torch.device("cpu"))
    layout = trainer.model.layout
    rows = [layout.row(dict(m.named_parameters()), trainer.model.like) for m in models]
    buffers = {
        n: torch.stack([dict(m.named_buffers())[n] for m in models])
        for n in trainer.model.buffer_names
    }
    state = State(torch.stack(rows).detach(), buffers, torch.zeros(3).double())
    samples = [
        type(data.all_rows())(data, np.array(of_client, dtype=np.int64))
        for of_client in ([0], list(range(1, 12)), list(range(12, 19)))
    ]
    found = fisher.stacked_fisher(trainer.model, state, samples, trainer.data, trainer.compiler)
    for place, (model, some) in enumerate(zip(models, samples, strict=True)):
        expected = by_hand(model, *some.all())
        for name, tensor in layout.split(found[place : place + 1]).items():
            torch.testing.assert_close(tensor[0], expected[name], rtol=1e-9, atol=1e-12)
