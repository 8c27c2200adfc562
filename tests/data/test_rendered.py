from hashlib import sha256

import numpy as np
import pytest
import torch
from torch import Tensor

from fedfor.data.rendered import rendered_digits
from fedfor.errors import ConfigError


@pytest.fixture(scope="module")
def many() -> tuple[Tensor, Tensor]:
    return rendered_digits(4000, seed=3)


@pytest.mark.parametrize("side", [28, 32])
def test_shapes(side: int) -> None:
    x, y = rendered_digits(7, seed=0, side=side)
    assert (x.dtype, x.shape) == (torch.uint8, (7, 3, side, side))
    assert (y.dtype, y.shape) == (torch.int64, (7,))


def test_images_are_the_same_on_every_machine() -> None:
    x, y = rendered_digits(250, seed=1)
    assert y[:8].tolist() == [4, 5, 7, 9, 0, 1, 8, 9]
    content = sha256(x.numpy().tobytes() + y.numpy().tobytes()).hexdigest()
    assert content == "ef90d7b45219f2f21d255ddb6eb7aa9947e27cdb16dd8ab8f86b4e1906b71447"


def test_a_shorter_request_gets_the_first_images_of_a_longer(many: tuple[Tensor, Tensor]) -> None:
    x, y = rendered_digits(450, seed=3)
    assert torch.equal(x, many[0][:450])
    assert torch.equal(y, many[1][:450])


def test_no_image_comes_twice(many: tuple[Tensor, Tensor]) -> None:
    other, _ = rendered_digits(1000, seed=4)
    both = torch.cat([many[0], other]).flatten(1).numpy()
    assert len({image.tobytes() for image in both}) == 5000


def test_all_digits_are_about_as_frequent(many: tuple[Tensor, Tensor]) -> None:
    counts = torch.bincount(many[1], minlength=10)
    assert len(counts) == 10
    assert counts.min() > 300
    assert counts.max() < 500


def test_images_go_from_dark_to_light_in_every_colour(many: tuple[Tensor, Tensor]) -> None:
    levels = many[0].float().mean(dim=(2, 3))
    assert bool((levels.min(dim=0).values < 40).all())
    assert bool((levels.max(dim=0).values > 215).all())


def test_ink_stands_out_from_its_background(many: tuple[Tensor, Tensor]) -> None:
    spread = many[0].float().std(dim=(2, 3)).max(dim=1).values
    assert (spread > 15).float().mean() > 0.98


def test_colours_do_not_tell_the_label(many: tuple[Tensor, Tensor]) -> None:
    x, y = many
    corner = x[:, :, :3, :3].float().mean(dim=(2, 3))
    for digit in range(10):
        away = corner[y == digit].mean(dim=0) - corner.mean(dim=0)
        assert away.abs().max() < 5 * 75 / np.sqrt(300)


def test_the_middle_shows_the_label(many: tuple[Tensor, Tensor]) -> None:
    """The mean picture of each digit names half of further images; chance names a tenth."""
    x, y = many
    grey = x.float().mean(dim=1)
    shape = (grey - grey[:, :2].mean(dim=(1, 2), keepdim=True)).abs().flatten(1)
    shape = shape / shape.norm(dim=1, keepdim=True)
    means = torch.stack([shape[:3000][y[:3000] == digit].mean(dim=0) for digit in range(10)])
    named = (shape[3000:] @ (means / means.norm(dim=1, keepdim=True)).T).argmax(dim=1)
    assert (named == y[3000:]).float().mean() > 0.5


@pytest.mark.parametrize(
    ("count", "seed", "side", "words"),
    [
        (0, 1, 32, "rendered digits: count must be 1 or more (got 0)"),
        (-3, 1, 32, "rendered digits: count must be 1 or more (got -3)"),
        (5, -1, 32, "rendered digits: seed must be 0 or more (got -1)"),
        (5, 1, 0, "rendered digits: side must be 1 or more (got 0)"),
    ],
)
def test_bad_requests_are_told(count: int, seed: int, side: int, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        rendered_digits(count, seed, side)
    assert str(error.value) == words
