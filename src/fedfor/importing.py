"""Things that a config names by where they are: `package.module:name`."""

import importlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

from .errors import ConfigError, FedforError


def import_by_path(path: str, where: str) -> Any:
    """The object at `package.module:name`, also from the folder the command was started in."""
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise ConfigError(f"{where}: '{path}' is not of the form package.module:name")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{where}: cannot import '{module_name}' ({error}); "
            "is it installed, or in the folder you start from?"
        ) from error
    except Exception as error:  # whatever one's own module may raise
        raise ConfigError(f"{where}: cannot import '{module_name}': {told(error)}") from error
    if not hasattr(module, name):
        raise ConfigError(f"{where}: module '{module_name}' has no '{name}'")
    return getattr(module, name)


def call(make: Callable[..., Any], where: str, *arguments: Any) -> Any:
    """What one's own function gives; what it raises, as a sentence."""
    try:
        return make(*arguments)
    except FedforError:
        raise
    except Exception as error:
        raise ConfigError(f"{where} failed: {told(error)}") from error


def told(error: BaseException) -> str:
    """An exception in a few words: what, and where it was raised."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text
