"""A Flower app for one's own model and data, written from a template."""

import keyword
import re
import sys
from importlib.metadata import packages_distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ..errors import ConfigError, FolderError


def write_app(folder: Path) -> list[Path]:
    """Write the app, named after its folder; gives back the files. Nothing is overwritten."""
    given = folder.absolute().name
    name = re.sub(r"[ ._-]+", "-", given.lower()).strip("-")
    package = name.replace("-", "_")
    _require_package(given, package)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder} is there and not empty; choose another folder")
    return _copy(files("fedfor.flower").joinpath("template"), folder, name, package)


def _require_package(given: str, package: str) -> None:
    named = f"an app is named after its folder, and '{given}'"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package) or keyword.iskeyword(package):
        raise ConfigError(
            f"{named} makes no Python package; choose a name of letters a to z, digits and dashes "
            "that begins with a letter"
        )
    taken = package in sys.stdlib_module_names or package in packages_distributions()
    if taken or package in ("fedfor", "test", "tests"):
        raise ConfigError(f"{named} would hide the Python package of that name; choose another")


def _copy(source: Traversable, target: Path, name: str, package: str) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for entry in sorted(source.iterdir(), key=lambda e: e.name):
        called = package if entry.name == "package" else entry.name
        if entry.is_dir():
            if called != "__pycache__":
                written += _copy(entry, target / called, name, package)
            continue
        text = entry.read_text(encoding="utf-8").replace("@NAME@", name)
        path = target / called
        path.write_text(text.replace("@PACKAGE@", package), encoding="utf-8")
        written.append(path)
    return written
