"""Trackers by name: those that come with the package, and one's own as `package.module:Class`."""

import os
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import cast

from ..errors import ConfigError, nearest
from ..importing import import_by_path
from .protocol import Tracker

NEEDS = {
    "mlflow": ("mlflow",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
}
"""The packages without which a tracker cannot work."""


def known_trackers(names: Iterable[str]) -> list[str]:
    """Each once. One that cannot work is refused now, before anything has run."""
    found = list(dict.fromkeys(names))
    for name in found:
        if ":" in name:
            _own(name)
        elif name not in NEEDS:
            hint = nearest(name, NEEDS, "one of your own is package.module:Class, known are:")
            raise ConfigError(f"--track {name}: there is no such tracker; {hint}")
        elif missing := [package for package in _needed(name) if not _is_installed(package)]:
            raise ConfigError(
                f"--track {name} needs {' and '.join(missing)}: pip install 'fedfor[track]'"
            )
    return found


def tracker_class(name: str) -> Callable[[], Tracker]:
    if name == "tensorboard":
        from .tensorboard import TensorBoard

        return TensorBoard
    if name == "wandb":
        from .wandb import WeightsAndBiases

        return WeightsAndBiases
    if name == "mlflow":
        from .mlflow import MLflow

        return MLflow
    return _own(name)


def _needed(name: str) -> tuple[str, ...]:
    in_a_file = name == "mlflow" and not os.environ.get("MLFLOW_TRACKING_URI")
    return (*NEEDS[name], *(("sqlalchemy", "alembic") if in_a_file else ()))


def _is_installed(package: str) -> bool:
    spec = find_spec(package)
    return spec is not None and spec.origin is not None  # and no mere folder of that name


def _own(name: str) -> Callable[[], Tracker]:
    made = import_by_path(name, "--track")
    lacking = [method for method in ("start", "log", "end") if not hasattr(made, method)]
    if not isinstance(made, type) or lacking:
        what = "no class" if not isinstance(made, type) else f"has no method '{lacking[0]}'"
        raise ConfigError(f"--track {name}: {what}; a tracker is a class with start, log and end")
    return cast("Callable[[], Tracker]", made)
