from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from fedfor.data.official.mat import read_svhn, read_synth_digits
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


def test_svhn_writes_0_as_10(root: Path) -> None:
    x = tiny.svhn(root)
    train, test = read_svhn(root)
    part = train.take()
    assert np.array_equal(part.x, x)
    assert part.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert (len(train), len(test)) == (12, 10)
    some = train.take(np.array([9, 0]))
    assert some.y.tolist() == [0, 1]
    assert np.array_equal(some.x, x[[9, 0]])


def test_synth_digits_has_the_digits_themselves(root: Path) -> None:
    tiny.synth_digits(root)
    train, _ = read_synth_digits(root)
    assert train.take().y.tolist() == [*range(10), 0, 1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"X": np.zeros((32, 32, 3, 4), float)}, "X is not of 32 x 32 x 3 bytes"),
        ({"X": np.zeros((28, 28, 3, 4), np.uint8)}, "X is not of 32 x 32 x 3 bytes"),
        ({"X": None}, "X is not of 32 x 32 x 3 bytes"),
        ({"y": np.ones((3, 1))}, "3 labels for 4 images"),
        ({"y": np.full((4, 1), 11)}, "it has a label that is no digit"),
        ({"y": np.array([[0], [1], [2], [10]])}, "it has the labels 0 and 10"),
        ({"y": np.full((4, 1), 1 + 0j)}, "it has a label that is no digit"),
        ({"y": np.full((4, 1), 0.5)}, "it has a label that is no digit"),
        ({"y": None}, "0 labels for 4 images"),
    ],
)
def test_wrong_contents(root: Path, changed: dict[str, Any], words: str) -> None:
    tiny.svhn(root)
    arrays = {"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.ones((4, 1)), **changed}
    path = root / "svhn" / "train_32x32.mat"
    savemat(path, {k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(DataError) as error:
        read_svhn(root)[0].take()
    assert words in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.99])
def test_cut_off(root: Path, part: float) -> None:
    tiny.svhn(root)
    path = root / "svhn" / "train_32x32.mat"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(part * len(raw))])
    with pytest.raises(DataError, match="fedfor data get svhn"):
        read_svhn(root)[0].take()


def test_no_mat_file_and_none(root: Path) -> None:
    tiny.svhn(root)
    path = root / "svhn" / "train_32x32.mat"
    path.write_bytes(b"<html>404, but politely</html>" * 99)
    with pytest.raises(DataError, match="is broken"):
        read_svhn(root)[0].take()
    with pytest.raises(DataError, match="is broken"):
        len(read_svhn(root)[0])
    savemat(path, {"Z": np.zeros(3)})
    with pytest.raises(DataError, match="has not the arrays X and y"):
        len(read_svhn(root)[0])
    savemat(path, {"X": np.zeros((28, 28, 3, 4), np.uint8), "y": np.ones((4, 1))})
    with pytest.raises(DataError, match="X is not of 32 x 32 x 3 bytes"):
        len(read_svhn(root)[0])
    path.unlink()
    with pytest.raises(DataError, match="there is no"):
        len(read_svhn(root)[0])
