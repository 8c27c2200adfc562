"""Sharing: which tensors of a model travel at all."""

from typing import Literal, get_args

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..tensors import Tensors

Sharing = Literal["everything", "all-but-batch-norm"]
"""`all-but-batch-norm` is FedBN (Li et al., 2021): each client keeps its own batch-norm layers.

    L_k(u, b_k),    u <- mean u_k,    b_k stays on client k

b_k are the batch-norm layers of client k, weights and statistics alike, and u is all else. A client
never seen before starts from the initial model's. A ClientOpt acts on u; the layers that stay are
trained plainly. From: Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization, ICLR 2021, arXiv:2102.07623."""

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
