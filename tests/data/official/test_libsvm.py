import bz2
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedfor.data.official.libsvm import read_usps
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


def test_values_and_labels(root: Path) -> None:
    values = tiny.usps(root)
    train, test = read_usps(root)
    part = train.take()
    assert len(train) == len(part) == 12
    assert np.allclose(part.x.reshape(12, 256), values)
    assert part.y.tolist() == [*range(10), 0, 1]
    assert len(test) == 10
    assert np.array_equal(train.take(np.array([3, 1])).x, part.x[[3, 1]])


def changed(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    return lambda raw: bz2.compress(change(bz2.decompress(raw).decode()).encode())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[: len(raw) // 2], "Compressed file ended"),
        (lambda raw: b"no bz2 at all", "Invalid data stream"),
        (changed(lambda text: ""), "it has no lines"),
        (changed(lambda text: "11" + text[1:]), "it has a label outside 1 to 10"),
        (changed(lambda text: text.replace(" 256:", " 257:", 1)), "it is not LIBSVM's format"),
        (changed(lambda text: text[: text.rindex(" 200:")]), "line 12 has not 256 values"),
        (changed(lambda text: re.sub(" 9:[^ ]+", " 9:7", text)), "it has a value outside -1 to 1"),
        (changed(lambda text: text.replace(" 256:", f" {10**30}:", 1)), "it is not LIBSVM's"),
        (changed(lambda text: text.replace(" 9:", " 9:a", 1)), "it is not LIBSVM's format"),
    ],
)
def test_damaged(root: Path, damage: Callable[[bytes], bytes], words: str) -> None:
    tiny.usps(root)
    path = root / "usps" / "usps.bz2"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError) as error:
        read_usps(root)[0].take()
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_counting_finds_a_cut_too(root: Path) -> None:
    tiny.usps(root)
    path = root / "usps" / "usps.bz2"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="Compressed file ended"):
        len(read_usps(root)[0])
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"usps.bz2 is broken .Is a directory"):
        read_usps(root)[0].take()
    path.rmdir()
    with pytest.raises(DataError, match="there is no"):
        len(read_usps(root)[0])
    with pytest.raises(DataError, match="there is no"):
        read_usps(root)[0].take()
