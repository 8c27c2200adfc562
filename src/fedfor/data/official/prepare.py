"""From bytes to the numbers that models learn from."""

import numpy as np
import torch

from ..labelled import LabelledData
from .images import in_threads, resized
from .sets import CLASS_NAMES
from .sources import Part

CLASSES = 10
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def whole(name: str, split: str, part: Part) -> LabelledData:
    """A set without domains: digits from -1 to 1, CIFAR-10 with mean 0 and deviation 1."""
    x = torch.from_numpy(part.x.astype(np.float32))
    if name == "cifar10":
        mean, std = (torch.tensor(t).view(3, 1, 1) for t in (CIFAR10_MEAN, CIFAR10_STD))
        x.div_(255).sub_(mean).div_(std)
    elif part.x.dtype == np.uint8:
        x.div_(255).mul_(2).sub_(1)
    y = torch.from_numpy(part.y)
    return LabelledData(f"{name} ({split})", x, y, CLASSES, class_names=CLASS_NAMES.get(name, ()))


def by_domain(name: str, split: str, parts: dict[str, Part]) -> LabelledData:
    """Domains one after the other: digits from -1 to 1, photos from 0 to 1, as FedBN has them."""
    counts = [len(part) for part in parts.values()]
    shape = next(iter(parts.values())).x.shape[1:]
    x = torch.empty(sum(counts), *shape)
    for place, part in zip(torch.split(x, counts), parts.values(), strict=True):
        place.copy_(torch.from_numpy(part.x))
    x.div_(255)
    if name == "digits-five":
        x.mul_(2).sub_(1)
    y = torch.from_numpy(np.concatenate([part.y for part in parts.values()]))
    domain = torch.repeat_interleave(torch.tensor(counts))
    called = CLASS_NAMES.get(name, ())
    return LabelledData(f"{name} ({split})", x, y, CLASSES, tuple(parts), domain, called)


def digits_28(part: Part) -> Part:
    """28 x 28 in colour, whatever they were."""
    from PIL import Image

    x = part.x
    if x.dtype != np.uint8:
        x = ((x + 1) / 2 * 255).astype(np.uint8)  # USPS, rounded as torchvision does
    small = np.empty((len(x), 3, 28, 28), np.uint8)

    def shrink(row: int) -> None:
        grey = x.shape[1] == 1
        image = Image.fromarray(
            x[row, 0] if grey else np.ascontiguousarray(x[row].transpose(1, 2, 0))
        )
        pixels = resized(image, 28)
        small[row] = pixels if grey else pixels.transpose(2, 0, 1)

    in_threads(shrink, len(x))
    return Part(small, part.y)
