from pathlib import Path

import numpy as np
import pytest
import torch

from fedfor.data import LabelledData, load_npz
from fedfor.errors import DataError

pytestmark = pytest.mark.fast


def write(path: Path, **changed: object) -> Path:
    arrays: dict[str, object] = {
        "x_train": np.zeros((6, 1, 4, 4), np.float32),
        "y_train": np.arange(6) % 3,
        "x_test": np.zeros((3, 1, 4, 4), np.float32),
        "y_test": np.arange(3),
        **changed,
    }
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})  # type: ignore[arg-type]
    return path


def test_reads_arrays(tmp_path: Path) -> None:
    split = load_npz(write(tmp_path / "a.npz"))
    assert (len(split.train), len(split.test), split.train.classes) == (6, 3, 3)
    assert split.train.x.dtype == torch.float32


def test_bytes_are_scaled(tmp_path: Path) -> None:
    x = np.full((6, 1, 4, 4), 255, np.uint8)
    assert load_npz(write(tmp_path / "a.npz", x_train=x)).train.x.unique().tolist() == [1.0]


def test_domains_by_name(tmp_path: Path) -> None:
    split = load_npz(
        write(
            tmp_path / "a.npz",
            domain_train=np.array(["b", "a"] * 3),
            domain_test=np.array(["a", "b", "b"]),
        )
    )
    assert split.train.domains == ("a", "b")
    assert split.test.domain is not None
    assert split.test.domain.tolist() == [0, 1, 1]


@pytest.mark.parametrize("kind", [str, bytes])
def test_class_names(tmp_path: Path, kind: type) -> None:
    given = ["cat", "dog", "it's"]
    names = np.array([n.encode() for n in given] if kind is bytes else given)
    split = load_npz(write(tmp_path / "a.npz", class_names=names))
    assert split.train.class_names == split.test.class_names == ("cat", "dog", "it's")
    assert load_npz(write(tmp_path / "b.npz")).train.class_names == ()


nan = np.zeros((6, 1, 4, 4), np.float32)
nan[4, 0, 1, 1] = np.nan


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": nan}, "1 samples hold NaN or infinity, the first is sample 4"),
        ({"y_test": np.array([0, 1, 3])}, "label 3 of sample 2 is out of range; with 3 classes"),
        ({"y_train": np.array([0, 1, 2, 0, 1, -1])}, "labels go from -1 to 2"),
        ({"y_train": np.array([0, 1, 2, 0, 1, 10**7])}, "labels go from 0 to 10000000, with 6"),
        ({"y_train": np.array([0, 1, 2, 0, 1, 4])}, "no sample has label 3, but some have 4"),
        ({"y_train": np.array(3)}, "labels go from 3 to 3, with 1 samples"),
        ({"y_train": np.array(["a"] * 6)}, "labels must be a row of whole numbers"),
        ({"y_train": np.zeros(5, int)}, "6 inputs but 5 labels"),
        ({"y_train": np.zeros(6)}, "must be a row of whole numbers"),
        ({"x_train": np.array(["a"] * 6)}, "must hold numbers"),
        ({"x_test": np.zeros((3, 1, 5, 5))}, "has samples of shape (1, 4, 4) but"),
        ({"x_test": None}, "has no array 'x_test'"),
        ({"x_train": np.zeros((0, 1, 4, 4)), "y_train": np.zeros(0, int)}, "there are no samples"),
        ({"x_train": np.array([{}] * 6)}, "is not a readable .npz file"),
        (
            {"domain_train": np.array(["a"] * 5), "domain_test": np.array(["a"] * 3)},
            "5 domains for 6 labels",
        ),
        (
            {"domain_train": np.zeros((6, 2)), "domain_test": np.array([0, 1, 1])},
            "domain_train must be a row",
        ),
        (
            {"class_names": np.array(["a", "b"])},
            "a.npz (train): 2 class names for 3 classes; give one for each, in order, or none",
        ),
        ({"class_names": np.arange(3)}, "class_names must be a row of words"),
        ({"class_names": np.array([["a"], ["b"], ["c"]])}, "class_names must be a row of words"),
        ({"class_names": np.array([b"\xff", b"b", b"c"])}, "bytes that are no ASCII"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    with pytest.raises(DataError) as error:
        load_npz(write(tmp_path / "a.npz", **changed))
    assert words in str(error.value)


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        load_npz(tmp_path / "none.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"is not a readable .npz file"):
        load_npz(tmp_path / "one.npy")
    (tmp_path / "text.npz").write_text("not a zip")
    with pytest.raises(DataError, match=r"is not a readable .npz file"):
        load_npz(tmp_path / "text.npz")
    whole = write(tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"is not a readable .npz file"):
        load_npz(tmp_path / "cut.npz")


def test_labels_must_be_class_numbers() -> None:
    with pytest.raises(DataError, match="labels must be int64"):
        LabelledData("mine", torch.zeros(2, 1), torch.zeros(2), 2)
