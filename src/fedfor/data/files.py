from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import DataError
from .labelled import DataSplit, LabelledData


def load_npz(path: Path) -> DataSplit:
    """Your own data: an .npz file with x_train, y_train, x_test, y_test.

    x of type uint8 is scaled to 0..1. With domain_train and domain_test (names or numbers), there
    can be a client for each domain. With class_names, reports call the classes by them.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: np.atleast_1d(archive[key]) for key in archive.files}
    except FileNotFoundError as error:
        raise DataError(f"data.file: there is no file {path}") from error
    except (OSError, TypeError, ValueError, BadZipFile, EOFError) as error:
        raise DataError(f"data.file: {path} is not a readable .npz file ({error})") from error
    if missing := [k for k in ("x_train", "y_train", "x_test", "y_test") if k not in arrays]:
        raise DataError(f"data.file: {path} has no array '{missing[0]}'; it has {sorted(arrays)}")
    classes = _classes(path, arrays["y_train"])
    names: tuple[str, ...] = ()
    if "domain_train" in arrays and "domain_test" in arrays:
        both = [arrays[f"domain_{part}"].astype(str).ravel() for part in ("train", "test")]
        names = tuple(np.unique(np.concatenate(both)).tolist())
    called = _class_names(path, arrays)
    train, test = (_part(path, arrays, part, classes, names, called) for part in ("train", "test"))
    return DataSplit(train, test)


def _class_names(path: Path, arrays: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    if (given := arrays.get("class_names")) is None:
        return ()
    if given.ndim != 1 or given.dtype.kind not in "US":
        raise DataError(f"{path.name}: class_names must be a row of words, one for each class")
    try:
        return tuple(given.astype(str).tolist())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name}: class_names holds bytes that are no ASCII; save them as text"
        ) from error


def _require_labels(where: str, y: NDArray[np.generic]) -> None:
    if not np.issubdtype(y.dtype, np.integer) or y.ndim != 1:
        raise DataError(f"{where}: labels must be a row of whole numbers, one for each sample")


def _classes(path: Path, y: NDArray[Any]) -> int:
    where = f"{path.name} (train)"
    _require_labels(where, y)
    if len(y) == 0:
        raise DataError(f"{where}: there are no samples")
    classes = int(y.max()) + 1
    if classes < 1 or classes > len(y) or (y < 0).any():
        raise DataError(
            f"{where}: labels go from {y.min()} to {y.max()}, with {len(y)} samples; number the "
            "classes from 0"
        )
    if (empty := np.flatnonzero(np.bincount(y, minlength=classes) == 0)).size:
        raise DataError(
            f"{where}: no sample has label {empty[0]}, but some have {classes - 1}; number the "
            "classes from 0 without gaps"
        )
    return classes


def _part(
    path: Path,
    arrays: dict[str, NDArray[np.generic]],
    part: str,
    classes: int,
    names: tuple[str, ...],
    class_names: tuple[str, ...],
) -> LabelledData:
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    where = f"{path.name} ({part})"
    _require_labels(where, y)
    if not (np.issubdtype(x.dtype, np.floating) or np.issubdtype(x.dtype, np.integer)):
        raise DataError(f"{where}: x_{part} must hold numbers, not {x.dtype}")
    scaled = torch.from_numpy(x.astype(np.float32))
    if x.dtype == np.uint8:
        scaled = scaled / 255
    domain = None
    if names:
        given = arrays[f"domain_{part}"].astype(str)
        if given.ndim != 1 or not set(given.tolist()) <= set(names):
            raise DataError(f"{where}: domain_{part} must be a row, one name for each sample")
        domain = torch.tensor([names.index(name) for name in given.tolist()])
    labels = torch.from_numpy(y.astype(np.int64))
    return LabelledData(where, scaled, labels, classes, names, domain, class_names)
