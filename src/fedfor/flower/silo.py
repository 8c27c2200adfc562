"""The cross-silo form: a client that still has the last model gets what changed since.

The difference is taken bit by bit (exclusive or), so the model that comes out is the server's to
the last bit, in as many bytes as the model itself. From the two models the client takes the
difference that FedFOR needs by itself. A hash says whether it got the right one.
"""

import hashlib

import torch
from torch import Tensor

from ..tensors import Tensors

WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Whole numbers by how many bytes they have."""


def difference(old: Tensors, new: Tensors) -> Tensors:
    return {name: _bits(old[name]) ^ _bits(tensor) for name, tensor in new.items()}


def apply(old: Tensors, changed: Tensors) -> Tensors | None:
    """The new model; None where the difference is not one of this old model."""
    if old.keys() != changed.keys():
        return None
    for name, bits in changed.items():
        mine = old[name]
        if bits.shape != mine.shape or bits.dtype != WHOLE[mine.element_size()]:
            return None
    return {name: (_bits(old[name]) ^ bits).view(old[name].dtype) for name, bits in changed.items()}


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(WHOLE[tensor.element_size()])


def fingerprint(model: Tensors) -> str:
    """A hash of names, types, shapes and all numbers."""
    digest = hashlib.sha256()
    for name, tensor in model.items():
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
