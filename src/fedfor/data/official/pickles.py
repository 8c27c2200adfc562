"""Pickles of numpy arrays, read without running anything that they ask for.

A pickle names functions to call. Here every name leads to one of the stand-ins below, which only
collect bytes and simple types; numpy's own rebuilding, which trusts its input, is never called.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import in_short
from .problems import broken, unread


def read_pickle(name: str, path: Path) -> Any:
    """Lists, tuples and dicts of numbers, texts, bytes and arrays. Texts of Python 2 are bytes."""
    try:
        with path.open("rb") as file:
            return _plain(_Unpickler(file, encoding="bytes").load())
    except OSError as error:
        raise unread(name, path, error) from error
    except Exception as error:  # a broken pickle can raise anything
        raise broken(name, path, in_short(error)) from error


class _Dtype:
    def __init__(self, code: str | bytes, *_: object) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else code
        self.dtype = np.dtype(text)
        if self.dtype.kind not in "buifSUO":
            raise pickle.UnpicklingError(f"it holds an array of {text}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """First made empty, then told its contents."""

    def __init__(self, *_: object) -> None:
        self.values: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        self.values = _values(raw, kind, shape, "F" if fortran else "C")


class _FromBuffer:
    """How arrays are written since pickle protocol 5."""

    def __init__(self, raw: Any, kind: _Dtype, shape: tuple[int, ...], order: str) -> None:
        self.values = _values(raw, kind, shape, order)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it sets the state of a finished array")


class _Scalar:
    def __init__(self, kind: _Dtype, raw: Any) -> None:
        self.values = _values(raw, kind, (), "C")

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it sets the state of a finished number")


class _Latin1(bytes):
    """How Python 3 writes bytes for Python 2."""

    def __new__(cls, text: str, encoding: str) -> "_Latin1":
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"it has text in {encoding}")
        return super().__new__(cls, text, "latin1")


def _values(raw: Any, kind: _Dtype, shape: tuple[int, ...], order: str) -> NDArray[Any]:
    if kind.dtype.kind == "O":
        flat = np.empty(len(raw), dtype=object)
        flat[:] = raw
    elif isinstance(raw, (bytes, bytearray)):
        flat = np.frombuffer(raw, kind.dtype)
    else:
        raise pickle.UnpicklingError("an array has no contents")
    return flat.reshape(shape, order="F" if order == "F" else "C")


_ADMITTED = {
    "_codecs.encode": _Latin1,
    "numpy.dtype": _Dtype,
    "numpy.ndarray": _Array,
    **{
        f"numpy.{core}.{function}": stand_in
        for core in ("core", "_core")
        for function, stand_in in (
            ("multiarray._reconstruct", _Array),
            ("multiarray.scalar", _Scalar),
            ("numeric._frombuffer", _FromBuffer),
        )
    },
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (stand_in := _ADMITTED.get(f"{module}.{name}")) is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data set needs")
        return stand_in


def _plain(value: Any) -> Any:
    """The same, with the arrays themselves in place of their stand-ins."""
    if isinstance(value, (_Array, _FromBuffer, _Scalar)):
        return value.values
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value
