"""The Ray cluster: one that is there, or one of our own on this machine."""

import logging
import os
import re
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import ConfigError, in_short
from ..names import RAY
from .temporary import Temporary

log = logging.getLogger("fedfor")

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
SOON_GONE = {"gcs_rpc_server_reconnect_timeout_s": 15}
"""How long Ray's helpers seek a cluster of our own, of which all else dies with us."""

PATIENCE = 300.0
"""For so many seconds a cluster that did not let us in is asked again."""

AGAIN_AFTER = 2.0
"""Seconds between two such questions."""

BUSY = "Proxy failed to Connect"
"""Ray's proxy starts a process for each driver from outside, and gives it half a minute."""

DEAD = ("Starting Ray client server failed", "psutil.ZombieProcess", "psutil.NoSuchProcess")
"""That process died at once, as sometimes happens when the proxy forks while gRPC is at work in it
(https://github.com/ray-project/ray/issues/63202)."""

DEATHS = 10
"""If so many processes die, it has another reason, and we stop asking."""

SOON = 10.0
"""Seconds for somebody to answer at the address of a cluster. Ray itself tries for minutes."""

MISSING = "engine = 'ray' needs Ray, which is not installed: pip install 'fedfor[ray]'"


class Cluster:
    """Connected to from `open` to `close`. What was there before is left as it was."""

    def __init__(self, engine: str, workers: int | None) -> None:
        address = os.environ.get("RAY_ADDRESS") if engine == RAY else engine
        self.address = None if address == "local" else address
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
                self._start(ray)

    def _start(self, ray: Any) -> None:
        self._temporary = Temporary()
        with _on_loopback():
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
            require_somebody(address)
        except (OSError, OverflowError) as error:  # the latter of a port that cannot be
            self._ours = False
            raise ConfigError(
                f"there is no Ray cluster at {address} ({in_short(error)}); start one with 'ray "
                "start --head', or leave the address out for a cluster on this machine alone"
            ) from error
        until, deaths, told = time.monotonic() + PATIENCE, 0, False
        while True:
            try:
                ray.init(address=address, **QUIET)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                what = f"the Ray cluster at {address} did not let us in ({_refusal(error)})"
                dead = any(words in str(error) for words in DEAD)
                deaths += dead
                again = BUSY in str(error) or (dead and deaths < DEATHS)
                if again and time.monotonic() < until:
                    if not told:
                        log.info("%s; asking again", what)
                    told = True
                    time.sleep(AGAIN_AFTER)
                    continue
                self._ours = False
                raise ConfigError(
                    f"{what}; is it of Ray {ray.__version__} and this Python? If so it may be "
                    "busy: try again"
                ) from error
            return

    def close(self) -> None:
        if self._ours:
            self._ours = False
            imported().shutdown()
        if self._temporary is not None:
            self._temporary.close()
            self._temporary = None


@contextmanager
def _on_loopback() -> Iterator[None]:
    """A cluster that is started here listens on 127.0.0.1: nobody from outside may give it work.

    Ray does so by itself on macOS and Windows, and has no setting for it elsewhere.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _refusal(error: Exception) -> str:
    """What Ray says, in one line; of a traceback, its last line."""
    if "Traceback" in str(error):
        return reason(error)
    return " ".join(str(error).split())[:300] or type(error).__name__


def reason(error: BaseException) -> str:
    """The last line of what Ray says, which is what happened."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]


def require_somebody(address: str) -> None:
    """An OSError, soon, where nobody listens at an address that names a host and a port."""
    if found := re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d{1,5})", address):
        socket.create_connection((found[1], int(found[2])), timeout=SOON).close()


def imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return ray
