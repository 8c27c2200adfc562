"""The readers on the real data, where FEDFOR_DATA names a folder that has them."""

import os
from pathlib import Path

import pytest
import torch

from fedfor.data import DataSplit
from fedfor.data.official import load
from fedfor.data.official.catalogue import CATALOGUE
from fedfor.data.official.check import glance

REAL = os.environ.get("FEDFOR_DATA")  # before the other tests' fixture sets it


@pytest.fixture
def real(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if REAL is None:
        pytest.skip("NOT TESTED ON REAL DATA: set FEDFOR_DATA to the folder that has them")
    monkeypatch.setenv("FEDFOR_DATA", REAL)
    return Path(REAL)


def loaded(real: Path, name: str) -> DataSplit:
    if glance(name, real) == "no":
        pytest.skip(f"NOT TESTED ON REAL DATA: there is no {name} in {real}")
    return load(name)


@pytest.mark.parametrize(
    "name", ["cifar10", "mnist", "usps", "svhn", "mnist-m", "synth-digits", "digits-five"]
)
def test_ten_classes_and_honest_notes(real: Path, name: str) -> None:
    split = loaded(real, name)
    entry = CATALOGUE[name]
    for part in (split.train, split.test):
        assert part.y.bincount(minlength=10).min() > len(part) / 30
        assert part.x.std() > 0.3
    if not entry.parts:
        whole = (len(split.train), len(split.test)) == (entry.train, entry.test)
        assert whole == (split.notes == ())


def test_cifar10_is_normalised(real: Path) -> None:
    x = loaded(real, "cifar10").train.x
    assert x.mean((0, 2, 3)).abs().max() < 0.001
    assert (x.std((0, 2, 3)) - 1).abs().max() < 0.001


@pytest.mark.parametrize(("name", "least"), [("mnist", 0.75), ("usps", 0.75)])
def test_labels_belong_to_their_images(real: Path, name: str, least: float) -> None:
    """The nearest mean image tells most digits."""
    split = loaded(real, name)
    x, y = split.train.x.flatten(1), split.train.y
    means = torch.stack([x[y == digit].mean(0) for digit in range(10)])
    guess = torch.cdist(split.test.x.flatten(1), means).argmin(1)
    assert (guess == split.test.y).float().mean() > least


@pytest.mark.parametrize("name", ["office-caltech", "domainnet"])
def test_photos(real: Path, name: str) -> None:
    split = loaded(real, name)
    entry = CATALOGUE[name]
    assert split.train.domain is not None
    assert split.train.domain.bincount().tolist() == [entry.per_domain] * len(entry.images)
    assert split.train.x.shape[1:] == (3, 256, 256)
    assert split.train.x.min() == 0
    assert split.train.x.max() == 1
