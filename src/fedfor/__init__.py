"""Federated learning that converges on non-IID clients and keeps no state on them."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import algorithms, data, models
    from .algorithms import Algorithm, algorithm
    from .engines import SerialEngine, Training, fisher_diagonal
    from .errors import ConfigError, DataError, DivergedError, FedforError
    from .experiments.simulate import History, simulate
    from .protocol import Kept, LocalRound, Message, Reply, Server

# Where each name lives. Imported at first use: `import fedfor` is then almost free, which counts
# where every message to a client starts a process.
_HOMES = {
    "Algorithm": ".algorithms",
    "ConfigError": ".errors",
    "DataError": ".errors",
    "DivergedError": ".errors",
    "FedforError": ".errors",
    "History": ".experiments.simulate",
    "Kept": ".protocol",
    "LocalRound": ".protocol",
    "Message": ".protocol",
    "Reply": ".protocol",
    "SerialEngine": ".engines",
    "Server": ".protocol",
    "Training": ".engines",
    "algorithm": ".algorithms",
    "fisher_diagonal": ".engines",
    "simulate": ".experiments.simulate",
}

__all__ = [
    "Algorithm",
    "ConfigError",
    "DataError",
    "DivergedError",
    "FedforError",
    "History",
    "Kept",
    "LocalRound",
    "Message",
    "Reply",
    "SerialEngine",
    "Server",
    "Training",
    "__version__",
    "algorithm",
    "algorithms",
    "data",
    "fisher_diagonal",
    "models",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    if name in ("algorithms", "data", "models"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'fedfor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
