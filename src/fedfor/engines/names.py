"""What an engine may be called in a config or on the command line."""

import re

from ..errors import ConfigError, nearest

EngineName = str
"""auto, serial, vector, ray, or where a Ray cluster is: ray://HOST:PORT or HOST:PORT."""

HERE = ("auto", "serial", "vector")
RAY = "ray"

_ADDRESS = re.compile(r"(ray://)?([\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


def is_ray(name: str) -> bool:
    """Whether a Ray cluster does the work: a local one, or the one that is named."""
    return name == RAY or _ADDRESS.fullmatch(name) is not None


def require_engine(name: str) -> None:
    """Refuse a name that no engine has."""
    if not isinstance(name, str) or (name not in HERE and not is_ray(name)):
        raise ConfigError(f"there is no engine {name!r}; {hint(name)}")


def hint(name: object) -> str:
    if "/" in str(name) or ":" in str(name):
        return "the address of a Ray cluster is ray://HOST:PORT or HOST:PORT"
    return nearest(str(name), (*HERE, RAY))
