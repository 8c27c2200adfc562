"""The residual network of He et al. (2016) for small images."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut without weights (option A of the paper).

    Where the block halves the image and widens it, the shortcut takes every second pixel and
    fills the new channels with zeros.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.stride, self.new_channels = stride, after - before

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.stride != 1 or self.new_channels:
            half = self.new_channels // 2
            x = x[:, :, :: self.stride, :: self.stride]
            x = F.pad(x, (0, 0, 0, 0, half, self.new_channels - half))
        return F.relu(x + y)


def resnet20(shape: Sequence[int], classes: int) -> nn.Module:
    """20 layers, 0.27 million parameters: 16, 32 and 64 channels, three blocks each."""
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise ConfigError(
            "resnet20 takes images of shape (channels, height, width) of 4 x 4 or more, and the "
            f"samples have shape {tuple(shape)}; use 'mlp' or 'linear'"
        )
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
    ]
    before = 16
    for after in (16, 32, 64):
        for place in range(3):
            layers.append(Block(before, after, stride=2 if place == 0 and after > 16 else 1))
            before = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
    return model
