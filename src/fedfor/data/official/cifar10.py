from pathlib import Path

import numpy as np

from .pickles import read_pickle
from .problems import broken, missing, unread
from .sources import Part

NAME = "cifar10"
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
PIXELS = 3 * 32 * 32
CLASS_NAMES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
"""As in its batches.meta, which is not needed."""
OUTSIDE = "it has a label outside 0 to 9"


def read_cifar10(root: Path) -> tuple[Part, Part]:
    """Train and test, from the binary or from the python version: the one with more files."""
    binary = [root / BINARY / f"{batch}.bin" for batch in BATCHES]
    python = [root / PYTHON / batch for batch in BATCHES]
    try:
        if not (root / BINARY).is_dir() and not (root / PYTHON).is_dir():
            raise missing(NAME, root / BINARY)
        if _count(binary) >= _count(python):
            *train, test = map(_binary, binary)
        else:
            *train, test = map(_python, python)
    except OSError as error:
        raise unread(NAME, Path(error.filename or root), error) from error
    x = np.concatenate([batch.x for batch in train])
    return Part(x, np.concatenate([batch.y for batch in train])), test


def _count(paths: list[Path]) -> int:
    return sum(path.exists() for path in paths)


def _binary(path: Path) -> Part:
    try:
        raw = np.fromfile(path, np.uint8)
    except OSError as error:
        raise unread(NAME, path, error) from error
    if len(raw) == 0 or len(raw) % (1 + PIXELS):
        raise broken(NAME, path, f"{len(raw):,} bytes are not whole images of {1 + PIXELS:,} bytes")
    rows = raw.reshape(-1, 1 + PIXELS)
    if rows[:, 0].max() > 9:
        raise broken(NAME, path, OUTSIDE)
    return Part(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64))


def _python(path: Path) -> Part:
    batch = read_pickle(NAME, path)
    if not isinstance(batch, dict):
        raise broken(NAME, path, "it holds no dictionary")
    x, y = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != PIXELS:
        raise broken(NAME, path, f"'data' is not an array of {PIXELS:,} bytes for each image")
    if not isinstance(y, list) or len(y) != len(x) or not all(type(i) is int for i in y):
        raise broken(NAME, path, f"'labels' is not a list of {len(x):,} whole numbers")
    if not y:
        raise broken(NAME, path, "it has no images")
    if min(y) < 0 or max(y) > 9:
        raise broken(NAME, path, OUTSIDE)
    return Part(x.reshape(-1, 3, 32, 32), np.array(y, np.int64))
