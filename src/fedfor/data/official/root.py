"""The folder that all official data sets lie under."""

import os
import sys
from pathlib import Path

from ...errors import DataError, in_short

VARIABLE = "FEDFOR_DATA"


def data_root() -> Path:
    """FEDFOR_DATA, unless it is empty, else a folder in the user's cache."""
    told = os.environ.get(VARIABLE, "").strip()
    root = _expanded(Path(told)) if told else _cache() / "fedfor" / "data"
    try:
        is_no_folder = root.exists() and not root.is_dir()
    except OSError as error:
        raise DataError(
            f"the data root {root} cannot be used ({in_short(error)}); name another folder with "
            f"--data-root or {VARIABLE}"
        ) from error
    if is_no_folder:
        raise DataError(
            f"the data root {root} is no folder; name a folder with --data-root or {VARIABLE}"
        )
    return root


def use_root(path: Path | None) -> None:
    """Have this process and its children look there; None leaves all as it is."""
    if path is not None:
        os.environ[VARIABLE] = str(_expanded(path).absolute())


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise DataError(
            f"the data root {path} is in the home of somebody who is not known here; name a "
            f"folder with --data-root or {VARIABLE}"
        ) from error


def _cache() -> Path:
    if told := os.environ.get("XDG_CACHE_HOME"):
        return Path(told).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"
