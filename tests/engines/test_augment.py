from math import pi

import pytest
import torch

from fedfor.engines import Training
from fedfor.engines.augment import Augmentation
from fedfor.errors import ConfigError

pytestmark = pytest.mark.fast

IMAGE = torch.arange(12.0).view(1, 1, 3, 4)


def drawn(flip: float = 0, down: float = 0, right: float = 0, angle: float = 0) -> torch.Tensor:
    return torch.tensor([[flip, down, right, angle]], dtype=torch.float64)


def test_nothing_drawn_is_nothing_changed() -> None:
    every = Augmentation(flip=True, crop=2, rotate=30)
    torch.testing.assert_close(every.apply(IMAGE, drawn()), IMAGE)


def test_a_flip_by_hand() -> None:
    assert torch.equal(Augmentation(flip=True).apply(IMAGE, drawn(flip=1)), IMAGE.flip(3))


def test_a_shift_by_hand() -> None:
    """One down and two to the left: what comes in is black."""
    moved = Augmentation(crop=2).apply(IMAGE, drawn(down=1, right=-2))
    assert moved[0, 0].tolist() == [[0, 0, 0, 0], [2, 3, 0, 0], [6, 7, 0, 0]]


def test_a_flip_and_a_shift_by_hand() -> None:
    """First the flip, then the shift."""
    moved = Augmentation(flip=True, crop=2).apply(IMAGE, drawn(flip=1, right=1))
    assert moved[0, 0, 0].tolist() == [0, 3, 2, 1]


def test_a_turn_by_a_right_angle() -> None:
    image = torch.arange(16.0).view(1, 1, 4, 4)
    turned = Augmentation(rotate=90).apply(image, drawn(angle=pi / 2))
    torch.testing.assert_close(turned, torch.rot90(image, 1, (2, 3)), atol=1e-4, rtol=0)


def test_draws_are_within_bounds_and_each_clients_own() -> None:
    every = Augmentation(flip=True, crop=3, rotate=10)
    draws = every.draw(500, seed=0, round_=2, client=7)
    assert set(draws[:, 0].tolist()) == {0, 1}
    assert set(draws[:, 1:3].flatten().tolist()) == set(range(-3, 4))
    assert draws[:, 3].abs().max() <= 10 * pi / 180
    assert torch.equal(draws, every.draw(500, 0, 2, 7))
    assert not torch.equal(draws, every.draw(500, 0, 2, 8))
    assert not torch.equal(draws, every.draw(500, 0, 3, 7))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flop"], "'flop' is not known; did you mean 'flip'"),
        (["crop"], "'crop' needs an amount, such as crop=4"),
        (["rotate=far"], "'rotate=far' needs an amount, such as rotate=30"),
        (["crop=1.5"], "the amount in 'crop=1.5' must be a whole number above 0, and"),
        (["rotate=-3"], "the amount in 'rotate=-3' must be a number above 0, and at most 180"),
        (["rotate=inf"], "the amount in 'rotate=inf' must be a number above 0"),
        ([3], "must be a list of words, such as ['flip', 'crop=4']"),
        ("flop", "'flop' is not known; did you mean 'flip'"),
        (["flip=2"], "'flip' takes no amount"),
    ],
)
def test_bad_words_are_told(words: list[str] | str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Training(augment=words)
    assert message in str(error.value)


def test_one_word_needs_no_list() -> None:
    assert Training(augment="flip").augmentation == Augmentation(flip=True)
