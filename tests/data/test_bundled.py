import numpy as np
import pytest
import torch

from fedfor.data import bundled, digit_domains, digits

pytestmark = pytest.mark.fast


def test_handwritten_digits() -> None:
    split = digits()
    assert (len(split.train), len(split.test), split.train.classes) == (1198, 599, 10)
    assert split.train.x.shape[1:] == (1, 8, 8)
    assert 0 <= split.train.x.min() <= split.train.x.max() <= 1
    assert split.train.y.bincount().min() > 90


def test_five_domains() -> None:
    split = digit_domains()
    assert split.train.domains == ("plain", "inverted", "textured", "blurred", "rendered")
    assert split.train.domain is not None
    assert split.test.domain is not None
    assert split.train.domain.bincount().tolist() == [300, 300, 299, 299, 300]
    assert split.test.domain.bincount().tolist() == [599] * 5
    assert split.train.x.shape[1:] == (3, 16, 16)
    assert -1 <= split.train.x.min() < split.train.x.max() <= 1


def test_domains_look_unlike() -> None:
    """Plain is dark, inverted light, blurred of low contrast, textured and rendered in colour."""
    split = digit_domains()
    plain, inverted, textured, blurred, rendered = (
        split.train.x[split.train.domain == d] for d in range(5)
    )
    assert plain.mean() < -0.2 < 0.2 < inverted.mean()
    assert blurred.std() < 0.3 < plain.std()
    for coloured, grey in ((textured, plain), (rendered, inverted)):
        assert (coloured[:, 0] - coloured[:, 1]).abs().mean() > 0.1
        assert torch.equal(grey[:, 0], grey[:, 1])


def test_no_test_digit_is_trained_on() -> None:
    split = digits()
    train = {tuple(x.flatten().tolist()) for x in split.train.x}
    assert not any(tuple(x.flatten().tolist()) in train for x in split.test.x)


def test_the_data_are_the_same_for_all() -> None:
    """Drawn from fixed numbers. A change here changes every result on these data."""
    split = digit_domains()
    assert split.train.y[:12].tolist() == digit_domains.__wrapped__().train.y[:12].tolist()
    assert torch.equal(split.train.x, digit_domains.__wrapped__().train.x)


@pytest.mark.parametrize("file", ["where it is", "elsewhere"])
def test_the_digits_are_scikit_learns(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read from its file without its help, where that is found."""
    from sklearn.datasets import load_digits

    if file == "elsewhere":
        monkeypatch.setattr(bundled, "find_spec", lambda name: None)
    bunch, split = load_digits(), digits.__wrapped__()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    x = torch.cat([split.test.x, split.train.x])[:, 0]
    assert torch.equal(16 * x, torch.tensor(bunch.images[order], dtype=torch.float32))
    assert torch.cat([split.test.y, split.train.y]).tolist() == bunch.target[order].tolist()
