"""What every contestant trains: the same data, models, batches and number of steps."""

import torch
from torch import Tensor, nn

from fedfor.models import build_model

MODELS = ("cnn", "linear")
SAMPLES, BATCH, RATE, CLASSES = 64, 16, 0.1, 10
SHAPE = (1, 20, 20)  # with these the cnn has 56,714 parameters, the linear model 4,010


def make_data(clients: int) -> tuple[Tensor, Tensor]:
    """Noise, labelled by a linear teacher: (clients, samples, ...), a row for each client."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(clients, SAMPLES, *SHAPE, generator=draw)
    teacher = torch.randn(x[0, 0].numel(), CLASSES, generator=draw)
    return x, (x.flatten(2) @ teacher).argmax(dim=2)


def make_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    return build_model(name, SHAPE, CLASSES)


def train_client(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """One epoch as one writes it by hand: for the plain loop, and for Flower's clients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for rows in torch.randperm(len(y)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


@torch.no_grad()
def final_loss(model: nn.Module, clients: int) -> float:
    """On all training data: much the same for all contestants if they did the same work."""
    x, y = (part.flatten(0, 1) for part in make_data(clients))
    return float(nn.functional.cross_entropy(model.eval()(x), y))
