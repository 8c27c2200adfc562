import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfor.data.official.folders import DOMAINNET, OFFICE_CALTECH
from fedfor.errors import DataError

from . import tiny

pytestmark = pytest.mark.fast


def fedbn_list(root: Path, list_: str, held: Any) -> None:
    (root / list_).write_bytes(pickle.dumps(held))


def test_the_own_split_is_by_class_and_always_the_same(root: Path) -> None:
    tiny.office_caltech(root)
    domains = OFFICE_CALTECH.read(root)
    assert list(domains) == ["amazon", "caltech", "dslr", "webcam"]
    train, test = domains["caltech"]
    assert np.bincount(train.y).tolist() == [4] * 10
    assert np.bincount(test.y).tolist() == [1] * 10
    assert not set(train.paths) & set(test.paths)
    assert train.y.tolist() != sorted(train.y.tolist())
    again, _ = OFFICE_CALTECH.read(root)["caltech"]
    assert again.paths == train.paths
    assert OFFICE_CALTECH.split_notes(root) == [
        "office-caltech: our own fixed split, 80 to 20; there are no split lists"
    ]


def test_the_order_of_the_own_split_is_pinned(root: Path) -> None:
    """Published figures hang on it."""
    tiny.office_caltech(root)
    train, test = OFFICE_CALTECH.read(root)["dslr"]
    assert [path.name for path in test.paths] == ["frame_0002.png"] * 10
    assert train.y[:8].tolist() == [2, 6, 1, 6, 5, 0, 0, 8]


def test_fedbns_names_of_folders(root: Path) -> None:
    tiny.office_caltech(root)
    base = root / "office_caltech_10"
    (base / "caltech10").rename(base / "caltech")
    for domain in ("amazon", "caltech", "dslr", "webcam"):
        (base / domain / "backpack").rename(base / domain / "back_pack")
        (base / domain / "laptop").rename(base / domain / "laptop_computer")
    train, _ = OFFICE_CALTECH.read(root)["caltech"]
    assert np.bincount(train.y).tolist() == [4] * 10


def test_images_are_given_their_size(root: Path) -> None:
    tiny.office_caltech(root)
    train, _ = OFFICE_CALTECH.read(root)["amazon"]
    part = train.take(np.arange(3))
    assert part.x.shape == (3, 3, 256, 256)
    assert part.x[:, 0, 0, 0].tolist() == (20 * part.y).tolist()
    assert part.x[:, 1].max() == 0


@pytest.mark.parametrize(("mode", "red"), [("L", 100), ("RGBA", 30)])
def test_images_of_another_number_of_bands_become_grey(root: Path, mode: str, red: int) -> None:
    """As FedBN has them; 30 is the grey of a red of 100."""
    tiny.office_caltech(root)
    train, _ = OFFICE_CALTECH.read(root)["amazon"]
    tiny.photo(train.paths[0], 100, mode)
    assert train.take(np.array([0])).x[0, :, 5, 5].tolist() == [red] * 3


@pytest.mark.parametrize("make", [tuple, list, np.array, lambda rows: np.array(rows, object)])
def test_fedbns_lists(root: Path, make: Any) -> None:
    tiny.office_caltech(root)
    base = root / "office_caltech_10"
    paths = [f"office_caltech_10/dslr/{name}/frame_0000.png" for name in ("mug", "bike", "laptop")]
    fedbn_list(base, "dslr_train.pkl", make([paths, ["mug", "bike", "laptop_computer"]]))
    fedbn_list(base, "dslr_test.pkl", make([paths[:1], ["mug"]]))
    train, test = OFFICE_CALTECH.read(root)["dslr"]
    assert train.y.tolist() == [8, 1, 5]
    assert train.take().x[:, 0, 0, 0].tolist() == [160, 20, 100]
    assert test.y.tolist() == [8]
    for domain in ("amazon", "caltech", "webcam"):
        fedbn_list(base, f"{domain}_train.pkl", None)
    assert OFFICE_CALTECH.split_notes(root) == []


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ((["a/b.png"], ["spoon"]), "it has the class 'spoon', which is none of the ten"),
        ((["../b.png"], ["mug"]), "it names a file outside the folder, ../b.png"),
        ((["/etc/passwd"], ["mug"]), "it names a file outside the folder, /etc/passwd"),
        ((["a", "b"], ["mug"]), "not a list of paths and one of as many classes"),
        ((["a"], [3]), "not a list of paths and one of as many classes"),
        (3, "not a list of paths and one of as many classes"),
    ],
)
def test_wrong_lists(root: Path, held: Any, words: str) -> None:
    tiny.office_caltech(root)
    fedbn_list(root / "office_caltech_10", "dslr_train.pkl", held)
    with pytest.raises(DataError) as error:
        OFFICE_CALTECH.read(root)
    assert words in str(error.value)
    assert "dslr_train.pkl" in str(error.value)


def test_the_other_list_must_be_there(root: Path) -> None:
    tiny.office_caltech(root)
    fedbn_list(root / "office_caltech_10", "dslr_train.pkl", (["a"], ["mug"]))
    with pytest.raises(DataError, match=r"there is no .*dslr_test.pkl"):
        OFFICE_CALTECH.read(root)


def test_domainnets_own_lists(root: Path) -> None:
    tiny.domainnet(root)
    base = root / "DomainNet"
    for domain in tiny.DOMAINNET:
        for part, numbers in (("train", (0, 1, 2)), ("test", (3,))):
            lines = [
                f"{domain}/{name}/{domain}_{i:06d}.png {number}"
                for number, name in enumerate(("aircraft_carrier", *tiny.DOMAINNET_CLASSES))
                for i in numbers
            ]
            (base / f"{domain}_{part}.txt").write_text("\n".join(lines) + "\n")
    assert DOMAINNET.split_notes(root) == [
        "domainnet: split by the publisher's lists, 70 to 30, not by FedBN's"
    ]
    train, test = DOMAINNET.read(root)["quickdraw"]
    assert np.bincount(train.y).tolist() == [3] * 10
    assert np.bincount(test.y).tolist() == [1] * 10
    assert train.y.tolist() != sorted(train.y.tolist())
    part = train.take()
    assert part.x[:, 0, 0, 0].tolist() == (20 * part.y).tolist()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"clipart/bird/a.png\n", "line 1 is not a path and a number"),
        (b"clipart/aircraft_carrier/a.png 0\n", "it has no image of the ten classes"),
        (b"clipart/../bird/a.png 3\n", "it names a file outside the folder"),
        (b"\xff\xfe", "it is no text"),
    ],
)
def test_wrong_lists_of_domainnet(root: Path, raw: bytes, words: str) -> None:
    tiny.domainnet(root, images=1)
    for part in ("train", "test"):
        (root / "DomainNet" / f"clipart_{part}.txt").write_bytes(raw)
    with pytest.raises(DataError) as error:
        DOMAINNET.read(root)
    assert words in str(error.value)


def test_missing_folders(root: Path) -> None:
    with pytest.raises(DataError, match=r"there is no .*office_caltech_10; get it with"):
        OFFICE_CALTECH.read(root)
    tiny.office_caltech(root, images=1)
    for path in (root / "office_caltech_10" / "webcam" / "mug").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"there is no .*webcam.mug.\*.jpg"):
        OFFICE_CALTECH.read(root)
    (root / "office_caltech_10" / "webcam" / "mug").rmdir()
    with pytest.raises(DataError, match=r"there is no .*webcam.mug"):
        OFFICE_CALTECH.read(root)


def test_broken_images(root: Path) -> None:
    tiny.office_caltech(root)
    train, _ = OFFICE_CALTECH.read(root)["amazon"]
    raw = train.paths[0].read_bytes()
    train.paths[0].write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match=f"{train.paths[0].name} is broken"):
        train.take()
