"""The network for digits of FedBN (Li et al., 2021)."""

from collections.abc import Sequence

from torch import nn

from ..errors import ConfigError


def digits_net(shape: Sequence[int], classes: int) -> nn.Module:
    """Six layers, batch norm after each but the last: 14.2 million parameters on 3 x 28 x 28.

    Layers before batch norm have a bias, which it takes out again: so has FedBN's code. That takes
    3 x 28 x 28 only, this any images.
    """
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise ConfigError(
            "digits-net takes images of shape (channels, height, width) of 4 x 4 or more, and the "
            f"samples have shape {tuple(shape)}; use 'mlp' or 'linear'"
        )
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 5, padding=2),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * (height // 4) * (width // 4), 2048),
        nn.BatchNorm1d(2048),
        nn.ReLU(),
        nn.Linear(2048, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
