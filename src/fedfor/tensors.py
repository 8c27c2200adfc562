"""Named tensors: the one form in which models and extras are held, sent and kept."""

from collections.abc import Sequence

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
"""A tensor for each parameter or buffer, by its name in the model."""

Extras = dict[str, Tensors]
"""Further sets of such tensors, by what they are: a direction, a control variate, ..."""


def nbytes(tensors: Tensors) -> int:
    """The bytes that these tensors take on the wire or in a store."""
    return sum(t.numel() * t.element_size() for t in tensors.values())


def extras_nbytes(extras: Extras) -> int:
    return sum(nbytes(tensors) for tensors in extras.values())


def copies(tensors: Tensors) -> Tensors:
    return {name: t.detach().clone() for name, t in tensors.items()}


def separate(tensors: Tensors) -> Tensors:
    """As a file wants them: contiguous, no two in the same memory."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        where = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if where in seen else tensor.contiguous()
        seen.add(where)
    return result


def flatten(extras: Extras) -> Tensors:
    """One level of names, `extra/parameter`, as a file wants them."""
    return {f"{extra}/{name}": t for extra, ts in extras.items() for name, t in ts.items()}


def unflatten(tensors: Tensors) -> Extras:
    extras: Extras = {}
    for key, tensor in tensors.items():
        extra, name = key.split("/", 1)
        extras.setdefault(extra, {})[name] = tensor
    return extras


def all_finite(tensors: Tensors) -> Tensor:
    """Whether there is neither NaN nor infinity: true or false, without waiting for a device."""
    flags = [torch.isfinite(t).all() for t in tensors.values() if t.is_floating_point()]
    return torch.stack(flags).all() if flags else torch.tensor(True)


def seem_finite(tensors: Sequence[Tensor]) -> Tensor:
    """As `all_finite`, by their sums: it may say no where only a sum is not finite."""
    sums = [t.sum(dtype=torch.float32 if t.element_size() < 4 else None) for t in tensors]
    return torch.isfinite(torch.stack([s.to(sums[0]) for s in sums])).all()


def first_not_finite(tensors: Tensors, before: Tensors) -> str | None:
    """The name of a tensor that holds NaN or infinity, which it did not before.

    A mask of infinities, say, is no sign of trouble. The device is asked once if all is finite.
    """
    if all_finite(tensors):
        return None
    return next(
        (
            name
            for name, t in tensors.items()
            if not all_finite({name: t})
            and (name not in before or all_finite({name: before[name]}))
        ),
        None,
    )


def wide(tensor: Tensor) -> torch.dtype:
    """What to sum such tensors in."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64
