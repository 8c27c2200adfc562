"""Training and testing on a DataLoader, which is gone through as it is."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from .. import protocol
from ..algorithms import Algorithm
from ..algorithms.sharing import trainable
from ..engines import Score, Training, fisher_diagonal
from ..engines.fisher import Loss
from ..errors import DataError
from ..protocol import Kept, Reply
from ..protocol.local import OWN_LAYERS, load_tensors
from ..randomness import torch_seeded


def pair(given: Any, what: str) -> tuple[Tensor, Tensor]:
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    if not is_pair or not all(isinstance(part, Tensor) for part in given):
        raise DataError(
            f"{what} must be a pair of tensors (x, y), not a {type(given).__name__}; for anything "
            "else use a loop of your own and fedfor.flower.LocalRound"
        )
    return given[0], given[1]


def _batches(loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    return (pair(batch, "a batch of the DataLoader") for batch in loader)


def _length(loader: DataLoader[Any]) -> int:
    """FedFOR must know beforehand how many steps there will be."""
    try:
        length = len(loader)
    except TypeError as error:
        raise DataError(
            "the DataLoader does not know its length; use a loop of your own and "
            "fedfor.flower.LocalRound, which is told the number of steps"
        ) from error
    if length == 0:
        raise DataError("the DataLoader gives no batches")
    return length


def train_through(
    algorithm: Algorithm,
    model: nn.Module,
    message: protocol.Message,
    kept: Kept | None,
    loader: DataLoader[Any],
    training: Training,
    loss: Loss,
    seed: int,
    client: int,
) -> tuple[Reply, Kept | None, float]:
    t, device = message.round, next(model.parameters()).device
    steps = training.epochs * _length(loader)
    optimizer = training.make_optimizer(trainable(model).values(), t)
    local = protocol.LocalRound(algorithm, model, optimizer, message, kept, steps=steps)
    model.train()
    total, examples = 0.0, 0
    with torch_seeded(seed, "loader", t, client, device):
        for _ in range(training.epochs):
            for x, y in _batches(loader):
                optimizer.zero_grad()
                value = loss(model(x.to(device)), y.to(device))
                value.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += float(value.detach())
                examples += len(y)
    fisher = None
    if algorithm.client.needs_fisher:
        batches = list(_batches(loader))
        x, y = (torch.cat([batch[i] for batch in batches]).to(device) for i in (0, 1))
        fisher = fisher_diagonal(model, loss, x, y)
    reply, keep = local.finish(max(1, examples // training.epochs), fisher)
    return reply, keep, total / steps


@torch.no_grad()
def score_through(
    model: nn.Module,
    message: protocol.Message,
    kept: Kept | None,
    loader: DataLoader[Any],
    loss: Loss,
) -> tuple[Score, int]:
    load_tensors(model, message.model)
    load_tensors(model, kept.extras[OWN_LAYERS] if kept else {})
    model.eval()
    device = next(model.parameters()).device
    correct, total, examples = 0, 0.0, 0
    for x, y in _batches(loader):
        outputs, y = model(x.to(device)), y.to(device)
        total += float(loss(outputs, y)) * len(y)
        correct += int((outputs.argmax(dim=1) == y).sum())
        examples += len(y)
    if examples == 0:
        raise DataError("the DataLoader gives no batches")
    return Score(correct / examples, total / examples), examples
