"""Small models for small images, for trying things out."""

import math
from collections.abc import Sequence

from torch import nn

from ..errors import ConfigError


def linear(shape: Sequence[int], classes: int) -> nn.Module:
    """Softmax regression: a convex problem."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(shape: Sequence[int], classes: int) -> nn.Module:
    """Two hidden layers of 64."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions and two linear layers."""
    return _cnn(shape, classes, batch_norm=False)


def cnn_bn(shape: Sequence[int], classes: int) -> nn.Module:
    """The same with batch norm after each layer but the last."""
    return _cnn(shape, classes, batch_norm=True)


def _cnn(shape: Sequence[int], classes: int, batch_norm: bool) -> nn.Module:
    if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
        raise ConfigError(
            f"the cnn models take images of shape (channels, height, width), height and width "
            f"divisible by 4, and the samples have shape {tuple(shape)}; use 'mlp' or 'linear'"
        )
    channels, height, width = shape
    layers: list[nn.Module] = []
    for before, after in ((channels, 16), (16, 32)):
        layers.append(nn.Conv2d(before, after, 3, padding=1, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm2d(after))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(32 * (height // 4) * (width // 4), 64, bias=not batch_norm)]
    if batch_norm:
        layers.append(nn.BatchNorm1d(64))
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(64, classes))
