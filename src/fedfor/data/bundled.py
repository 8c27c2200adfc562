"""Data that comes with the install: handwritten digits, and five domains made from them.

Everything here is drawn from fixed numbers, not from a run's seed: the data are the same for all.
"""

from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .labelled import DataSplit, LabelledData

DOMAINS = ("plain", "inverted", "textured", "blurred", "rendered")
SIDE = 16
TEST_SAMPLES = 599


@cache
def digits() -> DataSplit:
    """scikit-learn's 1,797 handwritten digits, 8 x 8 grey: 1,198 to train on, 599 to test on."""
    x, y = _handwritten()
    train = LabelledData("digits (train)", x[TEST_SAMPLES:], y[TEST_SAMPLES:], 10)
    test = LabelledData("digits (test)", x[:TEST_SAMPLES], y[:TEST_SAMPLES], 10)
    return DataSplit(train, test)


@cache
def digit_domains() -> DataSplit:
    """Five domains of 16 x 16 colour digits, values -1 to 1.

    plain, inverted, textured (on a colour background, in the manner of MNIST-M), blurred (and of
    low contrast), and rendered (from fonts). The handwritten training digits are dealt out, so no
    two domains share one; each domain is tested on all 599 handwritten test digits in its own
    style, the rendered one on 599 renderings of its own.
    """
    split = digits()
    draw = np.random.default_rng(5)
    quarters = np.array_split(draw.permutation(len(split.train)), 4)
    train, test = [], []
    for style, rows in zip(DOMAINS[:4], quarters, strict=True):
        kept = torch.from_numpy(rows)
        train.append((_styled(split.train.x[kept], style, draw), split.train.y[kept]))
        test.append((_styled(split.test.x, style, draw), split.test.y))
    train.append(_rendered(300, draw))
    test.append(_rendered(TEST_SAMPLES, draw))
    return DataSplit(_joined("train", train), _joined("test", test))


def _handwritten() -> tuple[Tensor, Tensor]:
    """In a fixed random order: the file's own is by writer.

    The file comes with scikit-learn, whose import would take longer than all else that a small
    process does: it is imported only where the file lies elsewhere.
    """
    package = find_spec("sklearn")
    folders = (package and package.submodule_search_locations) or [""]
    file = Path(folders[0], "datasets", "data", "digits.csv.gz")
    if file.is_file():
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
        pixels, labels = table[:, :-1], table[:, -1]
    else:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x = torch.tensor(pixels[order], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    return x, torch.tensor(labels[order], dtype=torch.int64)


def _styled(x: Tensor, style: str, draw: np.random.Generator) -> Tensor:
    ink = F.interpolate(x, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    if style == "inverted":
        ink = 1 - ink
    if style == "blurred":
        ink = 0.35 + 0.3 * _blurred(ink)
    image = ink.expand(-1, 3, -1, -1)
    if style == "textured":
        image = (_texture(len(x), draw) - ink).abs()
    return 2 * image - 1


def _blurred(ink: Tensor) -> Tensor:
    kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    ink = F.conv2d(F.pad(ink, (2, 2, 0, 0), mode="replicate"), kernel.view(1, 1, 1, 5))
    return F.conv2d(F.pad(ink, (0, 0, 2, 2), mode="replicate"), kernel.view(1, 1, 5, 1))


def _texture(count: int, draw: np.random.Generator) -> Tensor:
    """Colour patches at two scales, the way a photograph's background looks from near."""
    coarse = torch.tensor(draw.random((count, 3, 3, 3)), dtype=torch.float32)
    fine = torch.tensor(draw.random((count, 3, 8, 8)), dtype=torch.float32)
    patch = 0.7 * F.interpolate(coarse, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    patch += 0.3 * F.interpolate(fine, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    return patch.clamp(0, 1)


def _rendered(count: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Digits of random fonts, turned, sheared, moved and scaled, dark on light or light on dark."""
    with files("fedfor.data").joinpath("glyphs.npz").open("rb") as file:
        glyphs = np.load(file, allow_pickle=False)["glyphs"]
    y = draw.integers(10, size=count)
    glyph = torch.from_numpy(glyphs[draw.integers(len(glyphs), size=count), y]).float()[:, None]
    turn = draw.uniform(-0.35, 0.35, count)
    shear = draw.uniform(-0.25, 0.25, count)
    scale = draw.uniform(0.85, 1.3, count)
    move = draw.uniform(-0.2, 0.2, (2, count))
    cos, sin = np.cos(turn), np.sin(turn)
    theta = np.stack([cos, shear - sin, move[0], sin, cos, move[1]], axis=1).reshape(count, 2, 3)
    theta[:, :, :2] *= scale[:, None, None]
    grid = F.affine_grid(
        torch.tensor(theta, dtype=torch.float32), [count, 1, 32, 32], align_corners=False
    )
    ink = F.avg_pool2d(F.grid_sample(glyph / 255, grid, align_corners=False), 2)
    paper = torch.tensor(draw.random((count, 3, 1, 1)), dtype=torch.float32)
    paint = (paper + torch.tensor(draw.uniform(0.4, 0.6, (count, 3, 1, 1))).float()) % 1
    return 2 * (paper + ink * (paint - paper)) - 1, torch.from_numpy(y.astype(np.int64))


def _joined(part: str, domains: list[tuple[Tensor, Tensor]]) -> LabelledData:
    x = torch.cat([x for x, _ in domains])
    y = torch.cat([y for _, y in domains])
    domain = torch.cat([torch.full((len(y),), d) for d, (_, y) in enumerate(domains)])
    return LabelledData(f"digit-domains ({part})", x, y, 10, DOMAINS, domain)
