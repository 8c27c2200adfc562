"""What can be wrong with a data set on disk, each told in one sentence with the way out."""

from pathlib import Path

from ...errors import DataError, in_short
from .catalogue import CATALOGUE


class MissingFileError(DataError):
    path: Path
    """What is not there."""


def missing(name: str, path: Path) -> MissingFileError:
    folder = _unpacked(name, path)
    if folder is not None and is_filled(folder):
        way_out = f"{folder} is not complete: delete it and run 'fedfor data get {name}' again"
    else:
        way_out = f"get it with 'fedfor data get {name}'"
    error = MissingFileError(
        f"{name}: there is no {path}; {way_out}, or name the folder that has it with --data-root "
        "or FEDFOR_DATA"
    )
    error.path = path
    return error


def broken(name: str, path: Path, why: str) -> DataError:
    folder = _unpacked(name, path)
    what = "it" if folder is None else f"the folder {folder}"
    return DataError(
        f"{name}: {path} is broken ({why}); delete {what} and run 'fedfor data get {name}' again"
    )


def unread(name: str, path: Path, error: OSError) -> DataError:
    """What to say of a file that the system, or its unpacking, did not give."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return missing(name, path)
    if isinstance(error, PermissionError):
        return DataError(f"{name}: you may not read {path}; change who may read it")
    return broken(name, path, error.strerror or in_short(error))


def is_filled(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError:  # it cannot be looked into, but is there
        return True


def _unpacked(name: str, path: Path) -> Path | None:
    """The folder around it that comes out of an archive, so that it can only be got as a whole."""
    downloads = CATALOGUE[name].downloads if name in CATALOGUE else ()
    places = [Path(place).parts for item in downloads if item.is_archive for place in item.makes]
    for folder in path.parents:
        if any(folder.parts[-len(parts) :] == parts for parts in places):
            return folder
    return None
