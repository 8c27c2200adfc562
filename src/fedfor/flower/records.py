"""Tensors in Flower's records, and out again. What is read here may come from anybody."""

from collections.abc import Mapping
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from ..errors import ConfigError, in_short
from ..tensors import Tensors

NUMPY = "numpy.ndarray"
"""How Flower says that an Array holds what numpy.save writes."""


class WireError(Exception):
    """A record that cannot be read; the text says why."""


def to_record(tensors: Tensors) -> ArrayRecord:
    """In the order of the tensors: Flower's mods compare the orders of what comes and goes."""
    return ArrayRecord({name: _array(name, tensor) for name, tensor in tensors.items()})


def _array(name: str, tensor: Tensor) -> Array:
    try:
        return Array(np.ascontiguousarray(tensor.detach().cpu().numpy()).reshape(tensor.shape))
    except TypeError as error:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ConfigError(
            f"'{name}' is of type {kind}, which Flower's arrays, which are numpy's, do not have; "
            "keep the model's weights in float32 and compute in another type (autocast)"
        ) from error


def from_record(record: Mapping[str, Array]) -> Tensors:
    return {name: tensor_of(name, array) for name, array in record.items()}


def tensor_of(name: str, array: Array) -> Tensor:
    """As `array.numpy()` reads it, but nothing is allocated by what a header claims alone."""
    if array.stype != NUMPY:
        raise WireError(f"'{name}' is stored as {array.stype!r:.40}, not as numpy's .npy")
    try:
        shape, in_columns, dtype, start = _header(array.data)
    except Exception as error:  # numpy raises whatever its parsers do, and the bytes are anybody's
        raise WireError(f"'{name}' is not in numpy's .npy format ({in_short(error)})") from error
    if dtype.kind not in "fiub":
        raise WireError(f"'{name}' holds {dtype}, which are no numbers of a model")
    size = prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or len(array.data) - start != size:
        raise WireError(
            f"'{name}' has {len(array.data) - start} bytes for {shape} numbers of {dtype}"
        )
    values = np.frombuffer(array.data, dtype, offset=start)
    values = values.reshape(shape, order="F" if in_columns else "C")
    try:
        return torch.from_numpy(values.astype(dtype.newbyteorder("="), order="C", copy=True))
    except TypeError as error:
        raise WireError(f"'{name}' holds {dtype}, which torch does not have") from error


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError(f"version {version} is not known")
    shape, in_columns, dtype = read[version](stream)
    return shape, in_columns, dtype, stream.tell()


def payload(record: Mapping[str, Array]) -> int:
    """The bytes of the numbers themselves, as the simulator counts them: without headers."""
    return sum(len(array.data) - _header_bytes(array.data) for array in record.values())


def _header_bytes(data: bytes) -> int:
    try:
        return _header(data)[-1]
    except Exception:  # as above; then all of it is what somebody sent
        return 0
