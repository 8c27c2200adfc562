"""Changes to training images, drawn for each client and made on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ConfigError, nearest
from ..randomness import generator

KINDS = ("flip", "crop", "rotate")
MOST = {"flip": 1, "crop": 1000, "rotate": 180}


@dataclass(frozen=True)
class Augmentation:
    """What `training.augment` asks for: `flip`, `crop=4` (pixels), `rotate=30` (degrees)."""

    flip: bool = False
    """Left and right change places, for half of the images."""
    crop: int = 0
    """The image is moved by up to so many pixels either way; what comes in is 0."""
    rotate: float = 0.0
    """It is turned about its centre by up to so many degrees either way."""

    @staticmethod
    def parse(words: str | Sequence[str]) -> "Augmentation | None":
        found: dict[str, float] = {}
        words = [words] if isinstance(words, str) else words
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise ConfigError(
                f"training.augment must be a list of words, such as ['flip', 'crop=4'] "
                f"(got {words!r})"
            )
        for word in words:
            kind, _, amount = word.partition("=")
            if kind not in KINDS:
                raise ConfigError(
                    f"training.augment: '{word}' is not known; {nearest(kind, KINDS)}"
                )
            try:
                found[kind] = float(amount) if kind != "flip" else 1.0
            except ValueError as error:
                example = "crop=4" if kind == "crop" else "rotate=30"
                raise ConfigError(
                    f"training.augment: '{word}' needs an amount, such as {example}"
                ) from error
            if kind == "flip" and amount:
                raise ConfigError("training.augment: 'flip' takes no amount")
            fits = 0 < found[kind] <= MOST[kind] and (kind != "crop" or found[kind] % 1 == 0)
            if not fits:
                what = "a whole number" if kind == "crop" else "a number"
                most = f"{what} above 0, and at most {MOST[kind]}"
                raise ConfigError(f"training.augment: the amount in '{word}' must be {most}")
        if not found:
            return None
        crop, rotate = int(found.get("crop", 0)), found.get("rotate", 0.0)
        return Augmentation("flip" in found, crop, rotate)

    def __or__(self, other: "Augmentation") -> "Augmentation":
        """Able to do what either asks for."""
        return Augmentation(
            self.flip or other.flip, max(self.crop, other.crop), max(self.rotate, other.rotate)
        )

    def draw(self, count: int, seed: int, round_: int, client: int) -> Tensor:
        """For each of a client's samples of the round: flip, shift down, shift right, angle."""
        draw = generator(seed, "augment", round_, client)
        drawn = np.zeros((count, 4))
        if self.flip:
            drawn[:, 0] = draw.integers(0, 2, count)
        if self.crop:
            drawn[:, 1:3] = draw.integers(-self.crop, self.crop + 1, (count, 2))
        if self.rotate:
            drawn[:, 3] = draw.uniform(-self.rotate, self.rotate, count) * pi / 180
        return torch.from_numpy(drawn)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Images [samples, channels, height, width] as they were drawn to be."""
        if self.flip or self.crop:
            x = _moved(x, drawn[:, 0], drawn[:, 1].long(), drawn[:, 2].long())
        if self.rotate:
            x = _turned(x, drawn[:, 3])
        return x


def _moved(x: Tensor, flip: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each pixel from where it lay: no image is copied but into the result."""
    samples, _, height, width = x.shape
    rows = torch.arange(height, device=x.device) - down[:, None]
    columns = torch.arange(width, device=x.device) - right[:, None]
    inside = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]
    columns = torch.where(flip[:, None] > 0, width - 1 - columns, columns)
    at = torch.arange(samples, device=x.device)[:, None, None]
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    moved = x[at, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return torch.where(inside[:, None], moved, torch.zeros_like(moved))


def _within(places: Tensor, size: int) -> Tensor:
    return (places >= 0) & (places < size)


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    # In units of half a side, so that images that are not square are turned and not sheared.
    ratio = x.shape[3] / x.shape[2]
    zero = torch.zeros_like(cos)
    turn = torch.stack([cos, -sin / ratio, zero, sin * ratio, cos, zero], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(turn, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def require_images(augmentation: "Augmentation | None", shape: Sequence[int]) -> None:
    if augmentation is not None and len(shape) != 3:
        raise ConfigError(
            f"training.augment is for images of shape (channels, height, width), and the samples "
            f"have shape {tuple(shape)}"
        )
