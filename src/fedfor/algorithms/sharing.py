"""Sharing: which tensors of a model travel at all."""

from typing import Literal, get_args

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..tensors import Tensors

Sharing = Literal["everything", "all-but-batch-norm"]
"""`all-but-batch-norm` is FedBN (Li et al., 2021): each client keeps its own batch-norm layers,
weights and statistics alike. A client never seen before starts from the initial model's. A
ClientOpt acts on what is shared; the layers that stay are trained plainly."""

SHARINGS: tuple[str, ...] = get_args(Sharing)


def trainable(model: nn.Module) -> Tensors:
    """The parameters that are trained. Frozen ones are equal everywhere and never travel."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def buffers(model: nn.Module) -> Tensors:
    """The buffers that belong to the model's state, such as batch-norm statistics."""
    saved = model.state_dict().keys()
    return {name: b for name, b in model.named_buffers() if name in saved}


def stays_local(model: nn.Module, sharing: Sharing) -> frozenset[str]:
    """The names of the parameters and buffers that never leave a client."""
    if sharing == "everything":
        return frozenset()
    return frozenset(
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, _BatchNorm)
        for name in module.state_dict()
    )
