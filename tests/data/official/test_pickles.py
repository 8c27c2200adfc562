import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfor.data.official.pickles import read_pickle
from fedfor.errors import DataError

pytestmark = pytest.mark.fast


class Call:
    """A pickle of it asks for a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.asked = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.asked


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_come_back(tmp_path: Path, protocol: int) -> None:
    arrays = [
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(["amazon/a.jpg", "b"]),
        np.array(["bike", "mug"], dtype=object),
        np.arange(3, dtype=">i4"),
        np.float64(2.5),
    ]
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps({"all": (arrays, b"raw", "text", 3)}, protocol))
    read, raw, text, number = read_pickle("x", path)["all"]
    assert (raw, text, number) == (b"raw", "text", 3)
    for one, other in zip(arrays, read, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("evil", "asked"),
    [
        (Call(os.system, "touch {}"), "system"),
        (Call(subprocess.run, ["touch", "{}"]), "subprocess.run"),
        (Call(eval, "open('{}', 'w')"), "eval"),
        (Call(np.load, "{}"), "numpy.load"),
        (Call(getattr, "text", "join"), "getattr"),
    ],
)
def test_a_malicious_pickle_is_refused(tmp_path: Path, evil: Call, asked: str) -> None:
    mark = tmp_path / "mark"
    function, arguments = evil.asked
    told = [a.format(mark) if isinstance(a, str) else a for a in arguments]
    path = tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps({"labels": [Call(function, *told)]}))
    with pytest.raises(DataError) as error:
        read_pickle("cifar10", path)
    assert f"{asked}, which no data set needs" in str(error.value)
    assert not mark.exists()


@pytest.mark.parametrize(
    "state",
    [
        (1, (2,), np.dtype("u1"), False, b"three"),
        (1, (2**40,), np.dtype("u1"), False, b"ab"),
        (1, (2,), np.dtype("O"), False, b""),
        (1, (2,), np.dtype([("a", "O")]), False, b"0123456789abcdef"),
        (1, (1,), np.dtype("M8[s]"), False, b"01234567"),
        "nothing",
    ],
)
def test_forged_arrays_are_refused(tmp_path: Path, state: Any) -> None:
    class Forged:
        def __reduce__(self) -> tuple[Any, ...]:
            empty = np.empty(0).__reduce__()
            return empty[0], empty[1], state

    path = tmp_path / "forged.pkl"
    path.write_bytes(pickle.dumps(Forged()))
    with pytest.raises(DataError, match=r"forged.pkl is broken"):
        read_pickle("x", path)


@pytest.mark.parametrize("raw", [b"", b"not a pickle", pickle.dumps(["a"] * 9)[:-4]])
def test_broken_pickles(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.pkl").write_bytes(raw)
    with pytest.raises(DataError, match=r"a.pkl is broken"):
        read_pickle("x", tmp_path / "a.pkl")
