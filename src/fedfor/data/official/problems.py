"""What can be wrong with a data set on disk, each told in one sentence with the way out."""

from pathlib import Path

from ...errors import DataError


def missing(name: str, path: Path) -> DataError:
    return DataError(
        f"{name}: there is no {path}; get it with 'fedfor data get {name}', or name the folder "
        "that has it with --data-root or FEDFOR_DATA"
    )


def broken(name: str, path: Path, why: str) -> DataError:
    return DataError(
        f"{name}: {path} is broken ({why}); delete it and run 'fedfor data get {name}' again"
    )
