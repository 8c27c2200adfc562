"""Extras in fewer bytes: what goes over the wire in their place, and how it is read again.

All tensors of an extra go as one vector, in the order of their names, with one scale for each
where there are scales. So a message takes few operations, and none that waits for a GPU.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..errors import ConfigError, require_choice
from ..tensors import Extras, Tensors

Sizes = Sequence[int]
"""How many numbers each tensor has."""

Expected = dict[str, tuple[torch.dtype, int]]


class Form(Protocol):
    """A way to write numbers. What is not finite must not become finite by it."""

    bits: ClassVar[int]
    """Of one number, without scales."""

    def parts(self, sizes: Sizes) -> Expected:
        """Type and length of each vector on the wire."""
        ...

    def encode(self, flat: Tensor, sizes: Sizes) -> Tensors: ...

    def decode(self, encoded: Tensors, sizes: Sizes) -> Tensor:
        """In float32."""
        ...


class Float16:
    """Rounded to the nearest; beyond 65504 infinite, below 2^-25 zero."""

    bits: ClassVar[int] = 16

    def parts(self, sizes: Sizes) -> Expected:
        return {"values": (torch.float16, sum(sizes))}

    def encode(self, flat: Tensor, sizes: Sizes) -> Tensors:
        return {"values": flat.to(torch.float16)}

    def decode(self, encoded: Tensors, sizes: Sizes) -> Tensor:
        return encoded["values"].float()


class Int8:
    """Whole steps of max|x|/127 in each tensor, rounded to the nearest.

    A tensor that holds infinity has an infinite step: there it stays infinite, elsewhere it comes
    back as NaN.
    """

    bits: ClassVar[int] = 8

    def parts(self, sizes: Sizes) -> Expected:
        return {"values": (torch.int8, sum(sizes)), "scales": (torch.float32, len(sizes))}

    def encode(self, flat: Tensor, sizes: Sizes) -> Tensors:
        scales = (_of_each(torch.amax, flat.abs(), sizes) / 127).to(torch.float32)
        step = _spread(scales.clamp(max=torch.finfo(torch.float32).max), sizes)
        # Where the step is zero or NaN so is what comes back, whatever stands here.
        whole = flat.div(step).round_().clamp_(-127, 127).nan_to_num_(0)
        return {"values": whole.to(torch.int8), "scales": scales}

    def decode(self, encoded: Tensors, sizes: Sizes) -> Tensor:
        return encoded["values"] * _spread(encoded["scales"], sizes)


class Sign:
    """One bit for each number, and the mean of |x| in each tensor, as signSGD with a scale.

    A bit has no room for zero: it counts as positive, and where all are zero so is the scale. The
    first number is the lowest bit of the first byte.
    """

    bits: ClassVar[int] = 1

    def parts(self, sizes: Sizes) -> Expected:
        return {"signs": (torch.uint8, -(-sum(sizes) // 8)), "scales": (torch.float32, len(sizes))}

    def encode(self, flat: Tensor, sizes: Sizes) -> Tensors:
        positive = torch.nn.functional.pad((flat >= 0).to(torch.uint8), (0, -len(flat) % 8))
        places = torch.arange(8, dtype=torch.uint8, device=flat.device)
        packed = (positive.view(len(positive) // 8, 8) << places).sum(dim=1, dtype=torch.uint8)
        scales = _of_each(torch.mean, flat.abs(), sizes).to(torch.float32)
        return {"signs": packed, "scales": scales}

    def decode(self, encoded: Tensors, sizes: Sizes) -> Tensor:
        packed, scale = encoded["signs"], _spread(encoded["scales"], sizes)
        places = torch.arange(8, dtype=torch.uint8, device=packed.device)
        positive = ((packed[:, None] >> places) & 1).flatten()[: sum(sizes)].bool()
        return torch.where(positive, scale, -scale)


FORMS: dict[str, Form] = {"float16": Float16(), "int8": Int8(), "sign": Sign()}


@torch.no_grad()
def encode(form: str, tensors: Tensors) -> Tensors:
    """What goes over the wire in place of these tensors."""
    require_choice("compression", "form", form, FORMS)
    ordered = [tensors[name] for name in sorted(tensors)]
    flat = torch.cat([t.reshape(-1) for t in ordered])
    at_least_float32 = torch.promote_types(flat.dtype, torch.float32)
    return FORMS[form].encode(flat.to(at_least_float32), [t.numel() for t in ordered])


@torch.no_grad()
def decode(form: str, encoded: Tensors, like: Tensors) -> Tensors:
    """What was encoded, in the names, shapes and types of `like`."""
    require_choice("compression", "form", form, FORMS)
    names = sorted(like)
    sizes = [like[name].numel() for name in names]
    _require_parts(form, encoded, FORMS[form].parts(sizes))
    flat = FORMS[form].decode(encoded, sizes)
    parts = dict(zip(names, flat.split_with_sizes(sizes), strict=True))
    return {name: parts[name].view(t.shape).to(t.dtype) for name, t in like.items()}


def encode_extras(extras: Extras, forms: Mapping[str, str]) -> Extras:
    """Extras as they go over the wire: in their form if they have one, else as they are."""
    return {e: encode(forms[e], ts) if e in forms else ts for e, ts in extras.items()}


def decode_extras(sent: Extras, forms: Mapping[str, str], like: Tensors) -> Extras:
    """Extras as they are used, from what went over the wire."""
    return {e: decode(forms[e], ts, like) if e in forms else ts for e, ts in sent.items()}


def _of_each(what: Callable[[Tensor], Tensor], flat: Tensor, sizes: Sizes) -> Tensor:
    """One number for each tensor; zero for one that is empty."""
    parts = flat.split_with_sizes(list(sizes))
    return torch.stack([what(part) if len(part) else part.new_zeros(()) for part in parts])


def _spread(scales: Tensor, sizes: Sizes) -> Tensor:
    """Each tensor's scale beside each of its numbers."""
    pairs = zip(scales.unbind(), sizes, strict=True)
    return torch.cat([scale.expand(size) for scale, size in pairs])


def _require_parts(form: str, encoded: Tensors, expected: Expected) -> None:
    """Server and client may have been told different forms, or different models."""
    found = {name: (t.dtype, t.numel()) for name, t in encoded.items()}
    if found != expected:
        raise ConfigError(
            f"what was sent as '{form}' holds {_in_words(found)}, expected {_in_words(expected)}; "
            "give server and clients the same algorithm and model"
        )


def _in_words(parts: Expected) -> str:
    told = (f"{n} {str(t).removeprefix('torch.')} {name}" for name, (t, n) in parts.items())
    return " and ".join(told) or "nothing"
