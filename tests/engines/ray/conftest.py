"""A real Ray cluster of several nodes, all on this machine."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")

from ray._private import ray_constants  # noqa: E402

from fedfor.engines.ray import dispatch  # noqa: E402

from ...processes import own_port, with_variable  # noqa: E402

# All that is started here listens on 127.0.0.1, and whoever seeks it does so there.
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
os.environ[LOOPBACK] = "0"
ray_constants.ENABLE_RAY_CLUSTER = False

SOON: dict[str, Any] = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
"""So that a node that is gone is missed after a second or two, not after a quarter of a minute.

One that is slow to answer is not: each question waits for ten seconds.
"""

NO_LOGS: dict[str, Any] = {"include_log_monitor": False}
"""Or each node has a process that reads what others print."""

NEVER = 1e9

STORE = 80 * 2**20
"""Bytes that a node may keep in shared memory: the least that Ray takes is near it."""

OF_RAY = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
"""Ray leaves it to the garbage collector to close /dev/null."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/engines/ray" in item.path.as_posix():
            if "nodes" in getattr(item, "fixturenames", ()):  # which all of these share
                item.add_marker(pytest.mark.xdist_group("ray"))
                item.add_marker(pytest.mark.processes)
            for kind in OF_RAY:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))


class Nodes:
    """A head without CPUs, where no worker is, and nodes that have one each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self.folder = tempfile.mkdtemp(prefix="fed")  # short: paths of sockets are in it
        os.environ["RAY_TMPDIR"] = self.folder
        self.client_port = own_port()
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": SOON, **NO_LOGS}
        ports = {"ray_client_server_port": self.client_port}
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={**head, **ports, "object_store_memory": STORE},
        )
        self.address: str = self.cluster.address

    def add(self, cpus: int = 1) -> Any:
        return self.cluster.add_node(num_cpus=cpus, object_store_memory=STORE, **NO_LOGS)

    def lose(self, node: Any) -> None:
        """As when its machine is switched off."""
        self.cluster.remove_node(node, allow_graceful=False)

    def actors(self) -> list[str]:
        """The workers that there are, as the system knows them."""
        names = [_name(pid) for pid in processes(self.folder)]
        return [name for name in names if name.startswith("ray::Worker")]

    def close(self) -> None:
        if ray.is_initialized():
            ray.shutdown()
        self.cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)
        del os.environ["RAY_TMPDIR"]


def processes(place: str | Path) -> list[int]:
    """All that were started by somebody to whom Ray's folder is this."""
    return with_variable("RAY_TMPDIR", str(place))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slice is given to a second worker because the first is slow, as it may be on a busy
    machine. So a lost worker is noticed in the round in which it was lost."""
    monkeypatch.setattr(dispatch, "SLOW", (1.0, NEVER))
    monkeypatch.setattr(dispatch, "UNKNOWN", NEVER)


@pytest.fixture(scope="package")
def nodes() -> Iterator[Nodes]:
    """Three of them. Whoever takes one away puts another in its place."""
    nodes = Nodes()
    try:
        for _ in range(3):
            nodes.add()
        yield nodes
    finally:
        nodes.close()
