"""Things that a config names by where they are: `package.module:name`."""

import importlib
import sys
from typing import Any

from .errors import ConfigError


def import_by_path(path: str, where: str) -> Any:
    """The object at `package.module:name`, also from the folder the command was started in."""
    module_name, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{where}: cannot import '{module_name}' ({error}); "
            "is it installed, or in the folder you start from?"
        ) from error
    if not hasattr(module, name):
        raise ConfigError(f"{where}: module '{module_name}' has no '{name}'")
    return getattr(module, name)
