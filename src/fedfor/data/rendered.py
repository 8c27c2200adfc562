"""Numbers drawn from fonts, in the style of SynthDigits, for which they can stand in.

Only sums, products, quotients and comparisons of single numbers are used, each of which every
processor rounds in the same way: no matrix products, no sine, no normal draws. So the images are
the same to the last bit on any machine.
"""

from functools import cache
from importlib.resources import files

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import require_number, require_whole

Array = NDArray[np.floating]
Whole = NDArray[np.int64]

BATCH = 200
"""Images drawn together: few enough for the processor's cache."""
GLYPH, DIGIT = 32, 24
"""Pixels along the side of a stored glyph, and along the height of the digit in it."""
FAR = 1e6


def rendered_digits(count: int, seed: int, side: int = 32) -> tuple[Tensor, Tensor]:
    """Colour images of numbers, and the digit in the middle of each.

    The images are uint8 [count, 3, side, side], the labels int64 from 0 to 9. After Ganin and
    Lempitsky (2015): numbers of one to three digits in many fonts, sizes, colours and positions,
    from sharp to blurred. The same arguments give the same images on any machine, and a shorter
    request the first ones of a longer; other images need another seed.
    """
    require_whole("rendered digits", "count", count)
    require_whole("rendered digits", "side", side)
    require_number("rendered digits", "seed", seed, least=0)
    images = np.empty((count, 3, side, side), np.uint8)
    labels = np.empty(count, np.int64)
    for start in range(0, count, BATCH):
        drawn, label = _batch(np.random.default_rng([seed, start]), side)
        images[start : start + BATCH] = drawn[: count - start]
        labels[start : start + BATCH] = label[: count - start]
    return torch.from_numpy(images), torch.from_numpy(labels)


def _batch(draw: np.random.Generator, side: int) -> tuple[NDArray[np.uint8], Whole]:
    label = draw.integers(10, size=BATCH)
    ground = draw.random((BATCH, 3), dtype=np.float32)
    fill = _contrasting(draw, ground, _between(draw, 0.2, 0.6))
    stroke = _contrasting(draw, fill, _between(draw, 0.2, 0.6))
    image = _background(draw, ground, side)
    depth, pixel = _number(draw, label, side)
    weight = _between(draw, -0.2, 1.0)
    wider = _between(draw, 0.8, 1.9) * _chosen(draw, 0.4)
    image = _painted(image, stroke, _cover(depth + (weight + wider)[:, None, None], pixel))
    image = _painted(image, fill, _cover(depth + weight[:, None, None], pixel))
    image = _blurred(image, _between(draw, 0, 1))
    grain = _between(draw, 0, 0.06)[:, None, None, None]
    image = image + grain * (draw.random(image.shape, dtype=np.float32) - 0.5)
    return (image.clip(0, 1) * 255 + 0.5).astype(np.uint8), label


def _between(draw: np.random.Generator, low: float, high: float, *more: int) -> Array:
    return low + (high - low) * draw.random((BATCH, *more), dtype=np.float32)


def _chosen(draw: np.random.Generator, chance: float, *more: int) -> NDArray[np.bool_]:
    return draw.random((BATCH, *more), dtype=np.float32) < chance


def _contrasting(draw: np.random.Generator, other: Array, least: Array) -> Array:
    """A random colour that stands out from another by its brightness."""
    colours = _between(draw, 0, 1, 8, 3)
    away = colours - other[:, None]
    bright = abs(0.3 * away[..., 0] + 0.6 * away[..., 1] + 0.1 * away[..., 2])
    enough = bright >= least[:, None]
    picked = np.where(enough.any(axis=1), enough.argmax(axis=1), bright.argmax(axis=1))
    chosen: Array = colours[np.arange(BATCH), picked]
    return chosen


@cache
def _faces() -> tuple[Array, Array]:
    """For each font and digit, how deep each pixel lies in the ink, and half the ink's width."""
    with files("fedfor.data").joinpath("glyphs.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)["distances"]
    columns = (stored >= 128).any(axis=2)
    half = columns.sum(axis=2).astype(np.float32) / 2
    return (stored.astype(np.float32) - 128) / 16, half


def _number(draw: np.random.Generator, label: Whole, side: int) -> tuple[Array, Array]:
    """How deep each image pixel lies in the ink, in glyph pixels, and the size of an image pixel.

    The labelled digit is near the middle; each side may have a neighbour, which the border cuts.
    """
    faces, half_widths = _faces()
    face = draw.integers(len(faces), size=BATCH)
    digits = np.stack([draw.integers(10, size=BATCH), label, draw.integers(10, size=BATCH)], axis=1)
    half = half_widths[face[:, None], digits]
    gap = _between(draw, 1, 4)
    beside = _chosen(draw, 0.5, 2)
    edge = np.where(beside, (half[:, 1] + gap / 2)[:, None], FAR)[:, :, None, None]
    across, down, pixel = _coordinates(draw, side)
    place = 1 + (across > edge[:, 1]).astype(np.int64) - (across < -edge[:, 0])
    step = half[:, [1]] + half + gap[:, None]
    middles = step * np.array([-1, 0, 1], np.float32)
    rows = np.arange(BATCH)[:, None, None]
    glyph = (face[:, None] * 10 + digits)[rows, place]
    return _sampled(faces, glyph, across - middles[rows, place], down), pixel


def _coordinates(draw: np.random.Generator, side: int) -> tuple[Array, Array, Array]:
    """Where each image pixel lies in the turned, slanted, stretched and moved row of glyphs."""
    centres = (np.arange(side, dtype=np.float32) + 0.5) / side - 0.5
    x = centres[None, None, :] - _between(draw, -0.06, 0.06, 1, 1)
    y = centres[None, :, None] - _between(draw, -0.08, 0.08, 1, 1)
    half_turn = _between(draw, -0.12, 0.12, 1, 1)  # the tangent of half the angle
    cos = (1 - half_turn * half_turn) / (1 + half_turn * half_turn)
    sin = 2 * half_turn / (1 + half_turn * half_turn)
    zoom = DIGIT / _between(draw, 0.6, 0.9, 1, 1)
    down = (cos * y - sin * x) * zoom
    slanted = (cos * x + sin * y) * zoom + _between(draw, -0.2, 0.2, 1, 1) * down
    return slanted / _between(draw, 0.8, 1.25, 1, 1), down, zoom / side


def _sampled(faces: Array, glyph: Whole, across: Array, down: Array) -> Array:
    """Each pixel's value from its glyph, between the four nearest stored ones."""
    flat = faces.ravel()
    x = (across + (GLYPH - 1) / 2).clip(0, GLYPH - 1.001)
    y = (down + (GLYPH - 1) / 2).clip(0, GLYPH - 1.001)
    left, top = x.astype(np.int64), y.astype(np.int64)
    right, low = x - left.astype(np.float32), y - top.astype(np.float32)
    at = (glyph * GLYPH + top) * GLYPH + left
    above = flat[at] * (1 - right) + flat[at + 1] * right
    below = flat[at + GLYPH] * (1 - right) + flat[at + GLYPH + 1] * right
    between: Array = above * (1 - low) + below * low
    return between


def _cover(depth: Array, pixel: Array | float) -> Array:
    """How much of each pixel is ink: an edge is one image pixel wide."""
    return (depth / pixel + 0.5).clip(0, 1)


def _painted(image: Array, colour: Array, cover: Array) -> Array:
    return image + cover[:, None] * (colour[:, :, None, None] - image)


def _background(draw: np.random.Generator, ground: Array, side: int) -> Array:
    """A colour; on most images uneven, on some with patches, bars or discs."""
    image: Array = np.zeros((BATCH, 3, side, side), np.float32) + ground[:, :, None, None]
    for cells, most in ((2, 0.4), (4, 0.25), (max(side // 3, 2), 0.15)):
        strength = _between(draw, 0, most) * _chosen(draw, 0.4)
        patches = _enlarged(_between(draw, -1, 1, 3, cells, cells), side)
        image = image + strength[:, None, None, None] * patches
    centres = (np.arange(side, dtype=np.float32) + 0.5) / side - 0.5
    for _ in range(2):
        x = centres[None, None, :] - _between(draw, -0.5, 0.5, 1, 1)
        y = centres[None, :, None] - _between(draw, -0.5, 0.5, 1, 1)
        tilt = _between(draw, -1, 1, 1, 1)
        tilted = np.where(_chosen(draw, 0.5, 1, 1), x + tilt * y, y + tilt * x)
        bar = _between(draw, 0.01, 0.08, 1, 1) - abs(tilted)
        radius = _between(draw, 0.05, 0.3, 1, 1)
        disc = (radius * radius - x * x - y * y) / (2 * radius)
        for shape in (bar, disc):
            shown = _chosen(draw, 0.2)[:, None, None] * _cover(shape, 1 / side)
            colour = ground + _between(draw, -0.4, 0.4, 3)
            image = _painted(image, colour, shown)
    return image.clip(0, 1)


def _enlarged(cells: Array, side: int) -> Array:
    """A small image made `side` large, with even slopes between its values."""
    last = cells.shape[-1] - 1
    at = np.arange(side, dtype=np.float32) * (last / max(side - 1, 1))
    first = at.astype(np.int64).clip(0, last - 1)
    part = at - first.astype(np.float32)
    across = cells[..., first] * (1 - part) + cells[..., first + 1] * part
    part = part[:, None]
    large: Array = across[..., first, :] * (1 - part) + across[..., first + 1, :] * part
    return large


def _blurred(image: Array, strength: Array) -> Array:
    """From sharp (0) to strong (1): the mean of each pixel and its neighbours, three times."""
    beside = (strength * strength / 3)[:, None, None, None]
    for _ in range(3):
        tall = np.pad(image, ((0, 0), (0, 0), (1, 1), (0, 0)), mode="edge")
        image = image + beside * (tall[:, :, :-2] + tall[:, :, 2:] - 2 * image)
        wide = np.pad(image, ((0, 0), (0, 0), (0, 0), (1, 1)), mode="edge")
        image = image + beside * (wide[..., :-2] + wide[..., 2:] - 2 * image)
    return image
