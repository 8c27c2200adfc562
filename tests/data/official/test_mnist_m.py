from pathlib import Path

import numpy as np
import pytest

from fedfor.data.official.mnist_m import read_mnist_m
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


def test_images_in_the_order_of_the_labels(root: Path) -> None:
    x = tiny.mnist_m(root)
    train, test = read_mnist_m(root)
    part = train.take()
    assert np.array_equal(part.x, x)
    assert part.y.tolist() == [*range(10), 0, 1]
    assert (len(train), len(test)) == (12, 10)
    assert np.array_equal(train.take(np.array([5, 2])).x, x[[5, 2]])


def test_only_what_is_taken_is_decoded(root: Path) -> None:
    tiny.mnist_m(root)
    (root / "mnist_m" / "mnist_m_train" / "00000003.png").write_bytes(b"broken")
    train, _ = read_mnist_m(root)
    assert len(train.take(np.array([0, 1, 2, 4]))) == 4
    with pytest.raises(DataError, match=r"00000003.png is broken \(it is no image\)"):
        train.take()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no lines"),
        ("00000000.png 3\n00000001.png\n", "line 2 is not the name of a png file"),
        ("00000000.png 12\n", "line 1 is not the name of a png file"),
        ("../../secret.png 1\n", "line 1 is not the name of a png file"),
        (".. 5\n", "line 1 is not the name of a png file"),
        (". 5\n", "line 1 is not the name of a png file"),
        ("ü.png 1\n", "it is no text"),
    ],
)
def test_wrong_labels(root: Path, text: str, words: str) -> None:
    tiny.mnist_m(root)
    path = root / "mnist_m" / "mnist_m_train_labels.txt"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError) as error:
        read_mnist_m(root)
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_wrong_images(root: Path) -> None:
    tiny.mnist_m(root)
    path = root / "mnist_m" / "mnist_m_train" / "00000002.png"
    whole = path.read_bytes()
    for part in (0, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:part])
        with pytest.raises(DataError, match=r"00000002.png is broken"):
            read_mnist_m(root)[0].take()
    tiny.photo(path, 3, size=(28, 28))
    with pytest.raises(DataError, match="28 x 28 pixels in place of 32 x 32"):
        read_mnist_m(root)[0].take()
    path.unlink()
    with pytest.raises(DataError, match=r"there is no .*00000002.png"):
        read_mnist_m(root)[0].take()
    (root / "mnist_m" / "mnist_m_test_labels.txt").unlink()
    with pytest.raises(DataError, match=r"there is no .*mnist_m_test_labels.txt"):
        read_mnist_m(root)


def test_a_folder_in_place_of_the_labels(root: Path) -> None:
    tiny.mnist_m(root)
    path = root / "mnist_m" / "mnist_m_train_labels.txt"
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=f"Is a directory.; delete the folder {root / 'mnist_m'} "):
        read_mnist_m(root)
