"""AlexNet (Krizhevsky, 2014) with batch norm, as FedBN (Li et al., 2021) has it."""

from collections.abc import Sequence

from torch import nn

from ..errors import ConfigError

SMALLEST = 63
"""With fewer pixels a side, nothing is left for the last pooling."""


def alexnet_bn(shape: Sequence[int], classes: int) -> nn.Module:
    """Eight layers, batch norm after each but the last, no dropout: 57 million parameters.

    Layers before batch norm have a bias, which it takes out again: so has FedBN's code. The papers'
    images are 3 x 256 x 256; the number of parameters is the same for all sizes.
    """
    if len(shape) != 3 or min(shape[1:]) < SMALLEST:
        raise ConfigError(
            f"alexnet-bn takes images of shape (channels, height, width) of {SMALLEST} x {SMALLEST}"
            f" or more, and the samples have shape {tuple(shape)}; use 'resnet20' for small images"
        )
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 11, stride=4, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.BatchNorm2d(192),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.BatchNorm2d(384),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.BatchNorm2d(256),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.BatchNorm2d(256),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(),
        nn.Linear(256 * 6 * 6, 4096),
        nn.BatchNorm1d(4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.BatchNorm1d(4096),
        nn.ReLU(),
        nn.Linear(4096, classes),
    )
