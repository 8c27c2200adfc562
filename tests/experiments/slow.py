"""A model whose forward pass takes its time, so that a run can be killed in mid-round."""

import time
from collections.abc import Sequence

from torch import Tensor, nn

from fedfor.models import cnn_bn


class Slow(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.01)
        result: Tensor = self.inner(x)
        return result


def slow_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    return Slow(cnn_bn(shape, classes))
