"""Things with tensors in them as Ray carries them best: large buffers apart, never copied."""

import io
import pickle
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray import cloudpickle
from torch import Tensor

Parcel = tuple[bytes, list[NDArray[np.uint8]]]
"""The thing, and its large buffers, which processes of one machine share."""

LARGE = 2**14
"""Bytes from which a buffer goes apart; each one costs some time of its own."""

with warnings.catch_warnings():
    # Torch warns, once in a process, that what is in shared memory must not be written to.
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"0", dtype=np.uint8))


def pack(thing: object, known: Mapping[int, str] | None = None) -> Parcel:
    """With a name in place of each object, by its id, that the other side knows already."""
    buffers: list[NDArray[np.uint8]] = []

    def apart(buffer: pickle.PickleBuffer) -> bool:
        """Whether it stays inside."""
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True
        buffers.append(np.frombuffer(raw, dtype=np.uint8))
        return False

    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5, buffer_callback=apart)  # type: ignore[no-untyped-call]
    pickler.known = {} if known is None else known
    pickler.dump(thing)  # type: ignore[no-untyped-call]
    return file.getvalue(), buffers


def unpack(parcel: Parcel, known: Mapping[str, object] | None = None) -> Any:
    """The thing again. Its large tensors lie in shared memory: they must not be changed."""
    unpickler = _Unpickler(io.BytesIO(parcel[0]), buffers=parcel[1])
    unpickler.known = {} if known is None else known
    return unpickler.load()


class _Unpickler(pickle.Unpickler):
    known: Mapping[str, object]

    def persistent_load(self, pid: Any) -> Any:
        return self.known[pid]


class _Pickler(cloudpickle.Pickler):
    known: Mapping[int, str]

    def persistent_id(self, obj: Any) -> str | None:
        return self.known.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and _plain(obj):
            numbers = obj.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
            return _tensor, (numbers, obj.dtype, tuple(obj.shape))
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _plain(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _tensor(numbers: NDArray[np.uint8], dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not len(numbers):
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(numbers).view(dtype).reshape(shape)
