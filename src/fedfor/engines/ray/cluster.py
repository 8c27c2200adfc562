"""The Ray cluster: one that is there, or one of our own on this machine."""

import logging
import os
import warnings
from typing import Any

from ...errors import ConfigError, in_short
from ..names import RAY
from .temporary import Temporary

log = logging.getLogger("fedfor")

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
SOON_GONE = {"gcs_rpc_server_reconnect_timeout_s": 15}
"""How long Ray's helpers seek a cluster of our own, of which all else dies with us."""

MISSING = "engine = 'ray' needs Ray, which is not installed: pip install 'fedfor[ray]'"


class Cluster:
    """Connected to from `open` to `close`. What was there before is left as it was."""

    def __init__(self, engine: str, workers: int | None) -> None:
        self.address = os.environ.get("RAY_ADDRESS") if engine == RAY else engine
        self._workers = workers
        self._temporary: Temporary | None = None
        self._ours = False

    def open(self) -> None:
        ray = imported()
        if ray.is_initialized():  # by the program that we are a part of
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self._ours = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.address:
                self._connect(ray, self.address)
            else:
                self._temporary = Temporary()
                ray.init(
                    address="local",
                    num_cpus=self._workers,
                    include_dashboard=False,
                    _temp_dir=str(self._temporary.path),
                    _system_config=SOON_GONE,
                    **QUIET,
                )

    def _connect(self, ray: Any, address: str) -> None:
        try:
            ray.init(address=address, **QUIET)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            self._ours = False
            raise ConfigError(
                f"there is no Ray cluster at {address} ({in_short(error)}); start one with 'ray "
                "start --head', or leave the address out for a cluster on this machine alone"
            ) from error

    def close(self) -> None:
        if self._ours:
            self._ours = False
            imported().shutdown()
        if self._temporary is not None:
            self._temporary.close()
            self._temporary = None


def imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return ray
