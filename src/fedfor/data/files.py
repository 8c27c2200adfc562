from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import DataError
from .labelled import DataSplit, LabelledData


def load_npz(path: Path) -> DataSplit:
    """Your own data: an .npz file with x_train, y_train, x_test, y_test.

    x of type uint8 is scaled to 0..1. With domain_train and domain_test (names or numbers), there
    can be a client for each domain.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except FileNotFoundError as error:
        raise DataError(f"data.file: there is no file {path}") from error
    except (OSError, ValueError, BadZipFile, EOFError) as error:
        raise DataError(f"data.file: {path} is not a readable .npz file ({error})") from error
    if missing := [k for k in ("x_train", "y_train", "x_test", "y_test") if k not in arrays]:
        raise DataError(f"data.file: {path} has no array '{missing[0]}'; it has {sorted(arrays)}")
    if len(arrays["y_train"]) == 0:
        raise DataError(f"{path.name} (train): there are no samples")
    classes = int(np.max(arrays["y_train"])) + 1
    names: tuple[str, ...] = ()
    if "domain_train" in arrays and "domain_test" in arrays:
        both = np.concatenate([arrays["domain_train"], arrays["domain_test"]])
        names = tuple(str(name) for name in np.unique(both))
    train, test = (_part(path, arrays, part, classes, names) for part in ("train", "test"))
    return DataSplit(train, test)


def _part(
    path: Path,
    arrays: dict[str, NDArray[np.generic]],
    part: str,
    classes: int,
    names: tuple[str, ...],
) -> LabelledData:
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    where = f"{path.name} ({part})"
    if not np.issubdtype(y.dtype, np.integer) or y.ndim != 1:
        raise DataError(f"{where}: y_{part} must be a row of whole numbers, one for each sample")
    if not (np.issubdtype(x.dtype, np.floating) or np.issubdtype(x.dtype, np.integer)):
        raise DataError(f"{where}: x_{part} must hold numbers, not {x.dtype}")
    scaled = torch.from_numpy(x.astype(np.float32))
    if x.dtype == np.uint8:
        scaled = scaled / 255
    domain = None
    if names:
        domain = torch.tensor([names.index(str(name)) for name in arrays[f"domain_{part}"]])
    return LabelledData(where, scaled, torch.from_numpy(y.astype(np.int64)), classes, names, domain)
