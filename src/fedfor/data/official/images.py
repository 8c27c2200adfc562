"""Image files: decoded in a few threads, and only those that are used."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, in_short
from ..labelled import Rows
from .problems import broken, unread
from .sources import Part

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageFiles:
    """Paths and labels; the images have one size, or are given it."""

    name: str
    paths: tuple[Path, ...]
    y: NDArray[np.int64]
    side: int
    resize: bool

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Rows | None = None) -> Part:
        rows = np.arange(len(self)) if rows is None else rows
        x = np.empty((len(rows), 3, self.side, self.side), np.uint8)

        def decode(place: int) -> None:
            x[place] = self._decoded(self.paths[rows[place]])

        in_threads(decode, len(rows))
        return Part(x, self.y[rows])

    def _decoded(self, path: Path) -> Pixels:
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(path) as image:
                colour = _in_colour(image)
        except UnidentifiedImageError as error:
            raise broken(self.name, path, "it is no image") from error
        except OSError as error:
            raise unread(self.name, path, error) from error
        except Exception as error:  # a broken image can raise anything
            raise broken(self.name, path, in_short(error)) from error
        if not self.resize and colour.size != (self.side, self.side):
            width, height = colour.size
            why = f"{width} x {height} pixels in place of {self.side} x {self.side}"
            raise broken(self.name, path, why)
        return resized(colour, self.side).transpose(2, 0, 1)


def resized(image: "Image", side: int) -> Pixels:
    """[H, W] or [H, W, C], as torchvision's Resize makes it from an image."""
    from PIL.Image import Resampling

    if image.size != (side, side):
        image = image.resize((side, side), Resampling.BILINEAR)
    return np.asarray(image)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """work(0) to work(count - 1); the first error of them ends it."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        try:
            for _ in pool.map(work, range(count)):
                pass
        except DataError:
            pool.shutdown(cancel_futures=True)
            raise


def _in_colour(image: "Image") -> "Image":
    """Three bands; an image of another number of bands becomes grey, as FedBN has it."""
    if len(image.getbands()) == 3:
        return image.convert("RGB")
    return image.convert("L").convert("RGB")
