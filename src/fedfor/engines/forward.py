"""A model asked for its outputs, and left as it was found."""

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


@torch.no_grad()
def forward(model: nn.Module, x: Tensor) -> Tensor:
    """In evaluation, where and in what type its weights are."""
    like = next(model.parameters(), x)
    was_training = model.training
    model.eval()
    try:
        outputs: Tensor = model(x.to(like.device, like.dtype if x.is_floating_point() else x.dtype))
    finally:
        model.train(was_training)
    return outputs


def products(model: nn.Module, x: Tensor) -> float:
    """Multiplications in the forward of one sample."""
    with FlopCounterMode(display=False) as counter:
        forward(model, x[:2])
    return float(counter.get_total_flops()) / 2 / len(x[:2])
