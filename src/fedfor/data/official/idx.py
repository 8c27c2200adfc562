import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import in_short
from .problems import broken, unread
from .sources import Part

NAME = "mnist"
SIDE = 28
IMAGES, LABELS = 0x803, 0x801  # the first four bytes: unsigned bytes in three dimensions, in one


def read_mnist(root: Path) -> tuple[Part, Part]:
    """Train and test, packed with gzip or not."""
    train, test = (_part(root / "MNIST" / "raw", part) for part in ("train", "t10k"))
    return train, test


def _part(folder: Path, part: str) -> Part:
    images, x = _read(folder, f"{part}-images-idx3-ubyte", IMAGES)
    if x.shape[1:] != (SIDE, SIDE):
        height, width = x.shape[1:]
        raise broken(NAME, images, f"{height} x {width} pixels in place of {SIDE} x {SIDE}")
    labels, y = _read(folder, f"{part}-labels-idx1-ubyte", LABELS)
    if len(x) != len(y):
        raise broken(NAME, labels, f"{len(y):,} labels for the {len(x):,} images of {images.name}")
    if len(y) == 0 or y.max() > 9:
        raise broken(NAME, labels, "it has no labels" if len(y) == 0 else "a label is above 9")
    return Part(x[:, None], y.astype(np.int64))


def _read(folder: Path, stem: str, magic: int) -> tuple[Path, NDArray[np.uint8]]:
    path = folder / stem
    try:
        if not path.is_file():
            path = folder / f"{stem}.gz"
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except OSError as error:
        raise unread(NAME, path, error) from error
    except (EOFError, zlib.error) as error:
        raise broken(NAME, path, in_short(error)) from error
    dimensions = magic & 0xFF
    head = 4 + 4 * dimensions
    if len(raw) < head or struct.unpack(">I", raw[:4])[0] != magic:
        raise broken(NAME, path, f"it does not start as an idx{dimensions} file does")
    shape = struct.unpack(f">{dimensions}I", raw[4:head])
    if len(raw) - head != np.prod(shape, dtype=object):
        sizes = " x ".join(map(str, shape))
        raise broken(NAME, path, f"{len(raw) - head:,} bytes after a head that says {sizes}")
    return path, np.frombuffer(raw, np.uint8, offset=head).reshape(shape)
