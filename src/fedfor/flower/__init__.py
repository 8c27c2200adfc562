"""The same algorithms in a Flower federation: a strategy for the server, one call for clients."""

import importlib
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

try:
    import flwr as _flwr  # noqa: F401
except ImportError as error:
    raise ConfigError("fedfor.flower needs Flower: pip install 'fedfor[flower]'") from error

if TYPE_CHECKING:
    from .client import LocalRound, evaluate, train
    from .loop import start
    from .nodes import FederationError
    from .receive import NeedsModelError, plain_messages
    from .strategy import Strategy

# Flower starts a process for every message to a client: it need not load the server's side.
_HOMES = {
    "FederationError": ".nodes",
    "LocalRound": ".client",
    "NeedsModelError": ".receive",
    "Strategy": ".strategy",
    "evaluate": ".client",
    "plain_messages": ".receive",
    "start": ".loop",
    "train": ".client",
}

__all__ = [
    "FederationError",
    "LocalRound",
    "NeedsModelError",
    "Strategy",
    "evaluate",
    "plain_messages",
    "start",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module 'fedfor.flower' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
