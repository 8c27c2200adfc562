import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedfor.data.official.cifar10 import read_cifar10
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


def test_binary_version(root: Path) -> None:
    x = tiny.cifar10_binary(root)
    train, test = read_cifar10(root)
    assert np.array_equal(train.x, x)
    assert train.y.tolist() == list(range(10))
    assert test.y.tolist() == [0, 1]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_python_version(root: Path, protocol: int) -> None:
    x = tiny.cifar10_python(root, protocol)
    train, test = read_cifar10(root)
    assert np.array_equal(train.x, x)
    assert train.y.tolist() == [0, 1, 2, 3, 4]
    assert test.y.tolist() == [5]


def test_the_python_versions_own_pickle_of_python_2(root: Path) -> None:
    """As the published files are written: protocol 2, the texts of Python 2 as short strings."""
    tiny.cifar10_python(root)
    raw = bytes(range(256)) * 12
    published = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
        b"\x87R(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00" + raw + b"tb"
        b"U\x06labels]K\x07au."
    )
    (root / "cifar-10-batches-py" / "test_batch").write_bytes(published)
    _, test = read_cifar10(root)
    assert test.x.tobytes() == raw
    assert test.y.tolist() == [7]


def test_nothing_there(root: Path) -> None:
    with pytest.raises(DataError, match=r"no .*cifar-10-batches-bin; get it with 'fedfor data get"):
        read_cifar10(root)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[:-1], "6,145 bytes are not whole images of 3,073 bytes"),
        (lambda raw: b"", "0 bytes are not whole images"),
        (lambda raw: b"\x0a" + raw[1:], "it has a label outside 0 to 9"),
        (None, "there is no "),
    ],
)
def test_damaged_binary(root: Path, damage: Callable[[bytes], bytes] | None, words: str) -> None:
    tiny.cifar10_binary(root)
    path = root / "cifar-10-batches-bin" / "data_batch_3.bin"
    raw = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(raw))
    with pytest.raises(DataError) as error:
        read_cifar10(root)
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "fedfor data get cifar10" in str(error.value)


def test_the_version_with_more_files_is_read(root: Path) -> None:
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    x = tiny.cifar10_python(root)
    assert np.array_equal(read_cifar10(root)[0].x, x)
    (root / "cifar-10-batches-bin").rmdir()
    both = tiny.cifar10_binary(root)
    assert np.array_equal(read_cifar10(root)[0].x, both)
    (root / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    assert np.array_equal(read_cifar10(root)[0].x, x)


def test_the_folder_to_delete_is_named(root: Path) -> None:
    tiny.cifar10_binary(root)
    folder = root / "cifar-10-batches-bin"
    (folder / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=f"; delete the folder {folder} and run 'fedfor data get"):
        read_cifar10(root)
    (folder / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=f"; {folder} is not complete: delete it and run"):
        read_cifar10(root)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([10**30], "it has a label outside 0 to 9"),
        ([-1], "it has a label outside 0 to 9"),
        ([True], "'labels' is not a list of 1 whole numbers"),
        ([1, 2], "'labels' is not a list of 1 whole numbers"),
    ],
)
def test_wrong_labels_of_the_python_version(root: Path, labels: list[int], words: str) -> None:
    tiny.cifar10_python(root)
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": labels}
    (root / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(batch))
    with pytest.raises(DataError, match=f"data_batch_1 is broken .{words}"):
        read_cifar10(root)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_cut_off_python_version(root: Path, part: float) -> None:
    tiny.cifar10_python(root)
    path = root / "cifar-10-batches-py" / "data_batch_2"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(part * len(raw))])
    with pytest.raises(DataError, match="data_batch_2 is broken"):
        read_cifar10(root)
