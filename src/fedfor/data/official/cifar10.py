from pathlib import Path
from typing import Any

import numpy as np

from .pickles import read_pickle
from .problems import broken, missing
from .sources import Part

NAME = "cifar10"
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
PIXELS = 3 * 32 * 32


def read_cifar10(root: Path) -> tuple[Part, Part]:
    """Train and test, from the binary or from the python version."""
    if (folder := root / BINARY).is_dir():
        *train, test = [_binary(folder / f"{batch}.bin") for batch in BATCHES]
    elif (folder := root / PYTHON).is_dir():
        *train, test = [_python(folder / batch) for batch in BATCHES]
    else:
        raise missing(NAME, root / BINARY)
    x = np.concatenate([batch.x for batch in train])
    return Part(x, np.concatenate([batch.y for batch in train])), test


def _binary(path: Path) -> Part:
    try:
        raw = np.fromfile(path, np.uint8)
    except FileNotFoundError as error:
        raise missing(NAME, path) from error
    if len(raw) == 0 or len(raw) % (1 + PIXELS):
        raise broken(NAME, path, f"{len(raw):,} bytes are not whole images of {1 + PIXELS:,} bytes")
    rows = raw.reshape(-1, 1 + PIXELS)
    return _part(path, rows[:, 1:], rows[:, 0])


def _python(path: Path) -> Part:
    batch = read_pickle(NAME, path)
    if not isinstance(batch, dict):
        raise broken(NAME, path, "it holds no dictionary")
    x, y = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != PIXELS:
        raise broken(NAME, path, f"'data' is not an array of {PIXELS:,} bytes for each image")
    if not isinstance(y, list) or len(y) != len(x) or not all(isinstance(i, int) for i in y):
        raise broken(NAME, path, f"'labels' is not a list of {len(x):,} whole numbers")
    if not y:
        raise broken(NAME, path, "it has no images")
    return _part(path, x, y)


def _part(path: Path, x: Any, y: Any) -> Part:
    labels = np.asarray(y, np.int64)
    if labels.min() < 0 or labels.max() > 9:
        raise broken(NAME, path, "it has a label outside 0 to 9")
    return Part(x.reshape(-1, 3, 32, 32), labels)
