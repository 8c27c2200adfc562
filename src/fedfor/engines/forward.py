"""A model asked for its outputs, and left as it was found."""

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..algorithms.sharing import buffers, trainable


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


def places(model: nn.Module) -> dict[str, str]:
    """Wherever a trained parameter or a buffer stands in the model, and its first name.

    A parameter may be in several modules, and a module under several names. functional_call wants
    the first told and must not put something into the second twice.
    """
    first = {id(t): name for name, t in {**trainable(model), **buffers(model)}.items()}
    found = {}
    for prefix, module in model.named_modules():
        own = {**module._parameters, **module._buffers}
        for name, tensor in own.items():
            if id(tensor) in first:
                found[f"{prefix}.{name}" if prefix else name] = first[id(tensor)]
    return found


def products(model: nn.Module, x: Tensor) -> float:
    """Multiplications in the forward of one sample."""
    with FlopCounterMode(display=False) as counter:
        forward(model, x[:2])
    return float(counter.get_total_flops()) / 2 / len(x[:2])
