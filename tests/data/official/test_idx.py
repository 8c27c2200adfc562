import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedfor.data.official.idx import read_mnist
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("packed", [True, False])
def test_packed_or_not(root: Path, packed: bool) -> None:
    x = tiny.mnist(root, packed=packed)
    train, test = read_mnist(root)
    assert np.array_equal(train.x, x[:, None])
    assert train.y.tolist() == [*range(10), 0, 1]
    assert len(test) == 10


def changed(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda raw: gzip.compress(change(gzip.decompress(raw)))


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("train-images-idx3", lambda raw: raw[: len(raw) // 2], "Compressed file ended"),
        ("train-images-idx3", lambda raw: b"no gzip at all", "Not a gzipped file"),
        ("train-images-idx3", changed(lambda raw: raw[:-1]), "9,407 bytes after a head that says"),
        ("train-images-idx3", changed(lambda raw: raw[:5]), "does not start as an idx3 file"),
        ("train-images-idx3", changed(lambda raw: b"\0\0\x08\x01" + raw[4:]), "does not start as"),
        ("train-images-idx3", changed(lambda raw: raw[:4] + b"\xff" * 12), "0 bytes after a head"),
        ("t10k-labels-idx1", changed(lambda raw: raw[:-1] + b"\x0a"), "a label is above 9"),
        (
            "t10k-labels-idx1",
            changed(lambda raw: raw[:7] + b"\3" + raw[8:11]),
            "3 labels for the 10",
        ),
        ("t10k-labels-idx1", None, "there is no "),
    ],
)
def test_damaged(
    root: Path, file: str, damage: Callable[[bytes], bytes] | None, words: str
) -> None:
    tiny.mnist(root)
    path = root / "MNIST" / "raw" / f"{file}-ubyte.gz"
    raw = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(raw))
    with pytest.raises(DataError) as error:
        read_mnist(root)
    assert words in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(("height", "width"), [(14, 20), (0, 0), (28, 27)])
def test_images_of_another_size(root: Path, height: int, width: int) -> None:
    tiny.mnist(root)
    path = root / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    raw = struct.pack(">IIII", 2051, 12, height, width) + bytes(12 * height * width)
    path.write_bytes(gzip.compress(raw))
    words = f"{path.name} is broken .{height} x {width} pixels in place of 28 x 28"
    with pytest.raises(DataError, match=words):
        read_mnist(root)


def test_a_folder_in_place_of_a_file(root: Path) -> None:
    tiny.mnist(root)
    path = root / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz"
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=f"{path.name} is broken .Is a directory"):
        read_mnist(root)


def test_a_file_in_place_of_the_folder(root: Path) -> None:
    root.mkdir()
    (root / "MNIST").write_bytes(b"")
    with pytest.raises(DataError, match=r"there is no .*train-images-idx3-ubyte.gz; get it with"):
        read_mnist(root)


def test_a_flipped_byte_is_found(root: Path) -> None:
    tiny.mnist(root)
    path = root / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(DataError, match="is broken"):
        read_mnist(root)
