"""The folder that all official data sets lie under."""

import os
import sys
from pathlib import Path

VARIABLE = "FEDFOR_DATA"


def data_root() -> Path:
    """FEDFOR_DATA, else a folder in the user's cache."""
    if told := os.environ.get(VARIABLE):
        return Path(told).expanduser()
    return _cache() / "fedfor" / "data"


def use_root(path: Path | None) -> None:
    """Have this process and its children look there; None leaves all as it is."""
    if path is not None:
        os.environ[VARIABLE] = str(path.expanduser().absolute())


def _cache() -> Path:
    if told := os.environ.get("XDG_CACHE_HOME"):
        return Path(told).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"
