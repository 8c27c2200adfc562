from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..algorithms.sharing import trainable
from ..tensors import Tensors
from .forward import places

Loss = Callable[[Tensor, Tensor], Tensor]


def fisher_diagonal(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, chunk: int = 64) -> Tensors:
    """The diagonal of the empirical Fisher matrix: the mean square of each sample's gradient.

    Batch norm uses its running statistics meanwhile, since a sample alone has none.
    """
    params = {name: p.detach() for name, p in trainable(model).items()}
    at = {place: name for place, name in places(model).items() if name in params}

    def sample_loss(params: Tensors, x: Tensor, y: Tensor) -> Tensor:
        placed = {place: params[name] for place, name in at.items()}
        return loss(functional_call(model, placed, (x[None],), tie_weights=False), y[None])

    of_one = grad(sample_loss)
    was_training = model.training
    model.eval()
    try:
        sums = {name: torch.zeros_like(p) for name, p in params.items()}
        for start in range(0, len(y), chunk):
            of_chunk = vmap(of_one, in_dims=(None, 0, 0))
            grads = of_chunk(params, x[start : start + chunk], y[start : start + chunk])
            for name, g in grads.items():
                sums[name] += g.square().sum(dim=0)
    finally:
        model.train(was_training)
    return {name: s / len(y) for name, s in sums.items()}
