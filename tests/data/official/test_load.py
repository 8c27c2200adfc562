from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedfor.data import by_domain
from fedfor.data.official import NAMES, load
from fedfor.errors import DataError

from . import tiny


def digit_parts(root: Path) -> None:
    tiny.mnist(root)
    tiny.svhn(root)
    tiny.usps(root)
    tiny.mnist_m(root)


def test_names() -> None:
    assert NAMES == (
        "cifar10", "mnist", "usps", "svhn", "mnist-m", "synth-digits", "office-caltech",
        "domainnet", "digits-five",
    )  # fmt: skip


def test_cifar10_has_mean_0_and_deviation_1(root: Path) -> None:
    x = tiny.cifar10_binary(root)
    split = load("cifar10")
    assert split.train.x.dtype == torch.float32
    red = (x[3, 0, 4, 5] / 255 - 0.4914) / 0.2470
    assert split.train.x[3, 0, 4, 5].item() == pytest.approx(red, abs=1e-5)
    assert split.notes == ("cifar10: 10 of 50,000 training and 2 of 10,000 test images",)
    assert load("cifar10") is split


def test_classes_have_names_where_they_are_no_digits(root: Path) -> None:
    tiny.cifar10_binary(root)
    tiny.office_caltech(root)
    tiny.mnist(root)
    cifar10, office, mnist = load("cifar10"), load("office-caltech", per_domain=2), load("mnist")
    assert cifar10.train.class_names == cifar10.test.class_names
    assert (cifar10.test.class_names[0], cifar10.test.class_names[9]) == ("airplane", "truck")
    assert office.train.class_names == office.test.class_names
    assert office.test.class_names[5:7] == ("laptop", "monitor")
    assert mnist.train.class_names == ()


def test_another_root_is_another_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.mnist(root, train=12)
    tiny.mnist(root / "other", train=11)
    assert len(load("mnist").train) == 12
    monkeypatch.setenv("FEDFOR_DATA", str(root / "other"))
    assert len(load("mnist").train) == 11


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mnist", (1, 28, 28)),
        ("usps", (1, 16, 16)),
        ("svhn", (3, 32, 32)),
        ("mnist-m", (3, 32, 32)),
        ("synth-digits", (3, 32, 32)),
    ],
)
def test_digits_go_from_minus_1_to_1(root: Path, name: str, shape: tuple[int, ...]) -> None:
    getattr(tiny, name.replace("-", "_"))(root)
    split = load(name)
    for part, count in ((split.train, 12), (split.test, 10)):
        assert part.x.shape == (count, *shape)
        assert part.x.dtype == torch.float32
        assert -1 <= part.x.min() < -0.98
        assert 0.98 < part.x.max() <= 1
        assert part.domains == ()


def test_complete_sets_have_no_notes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedfor.data.official import sets
    from fedfor.data.official.catalogue import Entry

    tiny.mnist(root)
    monkeypatch.setitem(sets.CATALOGUE, "mnist", Entry("", "", train=12, test=10))
    assert load("mnist").notes == ()
    assert load("mnist").train.y.tolist() == [*range(10), 0, 1]


def test_digits_five(root: Path) -> None:
    digit_parts(root)
    tiny.synth_digits(root)
    split = load("digits-five", per_domain=7)
    assert split.train.domains == ("mnist", "svhn", "usps", "synth", "mnist-m")
    assert split.train.x.shape == (35, 3, 28, 28)
    assert split.test.x.shape == (50, 3, 28, 28)
    assert split.train.domain is not None
    assert split.train.domain.tolist() == [d for d in range(5) for _ in range(7)]
    assert (split.train.x[:7, 0] == split.train.x[:7, 2]).all()
    assert not any("rendered" in note for note in split.notes)
    assert "svhn: 12 of 73,257 training and 10 of 26,032 test images" in split.notes
    assert len(by_domain(split).rows(4)) == 7


def test_digits_five_takes_the_same_images_always(root: Path) -> None:
    """743 of them are what published figures hang on."""
    digit_parts(root)
    tiny.synth_digits(root)
    few, more = load("digits-five", 3), load("digits-five", 7)
    assert few.train.y.tolist()[:3] == more.train.y.tolist()[:3] == [9, 2, 7]
    assert torch.equal(few.train.x[6:9], more.train.x[14:17])


def test_digits_five_is_resized_as_torchvision_does_it(root: Path) -> None:
    digit_parts(root)
    tiny.synth_digits(root)
    svhn = load("svhn").test.x[4]
    whole = Image.fromarray(((svhn + 1) * 127.5).round().byte().permute(1, 2, 0).numpy())
    small = np.asarray(whole.resize((28, 28), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    found = load("digits-five", 3).test.x[10 + 4]
    assert torch.allclose(found, torch.from_numpy(small.astype(np.float32)) / 127.5 - 1, atol=1e-6)


def test_rendered_digits_stand_in_for_synth_digits(root: Path) -> None:
    digit_parts(root)
    split = load("digits-five", per_domain=4)
    assert (
        "synth: rendered in the style of SynthDigits, which is not in the data folder"
        in split.notes
    )
    assert split.train.domain is not None
    assert split.test.domain is not None
    assert split.train.domain.bincount().tolist() == [4] * 5
    assert split.test.domain.bincount().tolist() == [10, 10, 10, 2_000, 10]
    drawn = split.train.x[12:16]
    assert -1 <= drawn.min() < drawn.max() <= 1
    assert split.test.y[split.test.domain == 3].bincount().min() > 100


@pytest.mark.parametrize("missing", ["MNIST", "svhn", "usps", "mnist_m"])
def test_the_other_parts_must_be_there(root: Path, missing: str) -> None:
    digit_parts(root)
    (root / missing).rename(root / "elsewhere")
    with pytest.raises(DataError, match=f"there is no .*{missing}"):
        load("digits-five", per_domain=2)


@pytest.mark.parametrize(
    ("name", "domains"),
    [("office-caltech", ("amazon", "caltech", "dslr", "webcam")), ("domainnet", tiny.DOMAINNET)],
)
def test_folders(root: Path, name: str, domains: tuple[str, ...]) -> None:
    getattr(tiny, name.replace("-", "_"))(root)
    split = load(name, per_domain=3)
    assert split.train.domains == split.test.domains == domains
    assert split.train.x.shape == (3 * len(domains), 3, 256, 256)
    assert len(split.test) == 10 * len(domains)
    assert split.train.x.min() >= 0
    assert torch.allclose(split.train.x[:, 0, 0, 0], 20 * split.train.y / 255)
    assert split.notes[-1] == f"{name}: our own fixed split, 80 to 20; there are no split lists"
    published = name == "office-caltech"  # of the other, nobody says how many there are
    assert (f"{name}, {domains[0]}: 50 of " in split.notes[0]) == published


def test_only_the_images_that_are_used_are_decoded(root: Path) -> None:
    from fedfor.data.official.folders import OFFICE_CALTECH

    tiny.office_caltech(root)
    train, _ = OFFICE_CALTECH.read(root)["dslr"]
    train.paths[3].write_bytes(b"broken")
    assert len(load("office-caltech", 3).train) == 12
    with pytest.raises(DataError, match="is broken"):
        load("office-caltech", 4)


@pytest.mark.parametrize(
    ("name", "per_domain", "words"),
    [
        ("mnist", 3, "mnist: it has no domains, so per_domain is not for it; leave it out"),
        ("digits-five", 13, "mnist has 12 training images, and per_domain asks for 13; ask for 12"),
        ("digits-five", None, "mnist has 12 training images, and per_domain asks for 743"),
        ("digits-five", 0, "per_domain must be 1 or more (got 0)"),
        ("office-caltech", 41, "amazon has 40 training images, and per_domain asks for 41"),
        ("office-caltech", None, "amazon has 40 training images, and per_domain asks for 62"),
        ("domainnet", None, "clipart has 40 training images, and per_domain asks for 105"),
        ("cifar", None, "there is no data set 'cifar'; did you mean 'cifar10'?"),
    ],
)
def test_what_cannot_be_had(root: Path, name: str, per_domain: int | None, words: str) -> None:
    digit_parts(root)
    if name in ("office-caltech", "domainnet"):
        getattr(tiny, name.replace("-", "_"))(root)
    with pytest.raises(DataError) as error:
        load(name, per_domain)
    assert words in str(error.value)
