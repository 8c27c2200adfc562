"""The same algorithms in a Flower federation: a strategy for the server, one call for clients."""

from ..errors import ConfigError

try:
    import flwr as _flwr  # noqa: F401
except ImportError as error:
    raise ConfigError("fedfor.flower needs Flower: pip install 'fedfor[flower]'") from error

from .client import LocalRound, evaluate, train
from .loop import FederationError, start
from .receive import NeedsModelError, plain_messages
from .strategy import Strategy

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
