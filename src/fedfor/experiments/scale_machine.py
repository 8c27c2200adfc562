"""The machine, or the cluster, that something is measured on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..engines.names import is_ray, require_engine
from ..errors import ConfigError
from .config import Section
from .own_process import PROBLEM, answer, ask

PACKAGES = ("fedfor", "torch", "numpy", "ray")

PATIENCE = 180.0
"""Seconds that a cluster has to tell what it has."""


class Machine(Section):
    processor: str
    cores: int
    """That this process may use."""
    memory: int | None
    """In bytes; None where the system does not tell."""
    platform: str
    nodes: int | None = None
    """Of a cluster that was there before; all else is of the machine that drives it."""
    cpus: int | None = None
    """Of all nodes."""

    @property
    def room(self) -> int:
        """For workers."""
        return self.cores if self.cpus is None else self.cpus


def machine(engine: str) -> Machine:
    """This one, and how large the cluster is, if the engine names one."""
    return Machine(
        processor=_processor(),
        cores=_cores(),
        memory=_memory(),
        platform=platform.platform(),
        **_of_cluster(engine),
    )


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _of_cluster(engine: str) -> dict[str, int]:
    require_engine(engine)
    if not is_ray(engine):
        return {}
    if find_spec("ray") is None:
        raise ConfigError(
            f"the engine {engine} needs Ray: pip install 'fedfor[ray]', or name another with "
            "--engine serial"
        )
    from ..engines.ray.cluster import Cluster

    address = Cluster(engine, None).address
    if not address:
        return {}
    _require_somebody(address)
    found = ask(__name__, {"address": address}, PATIENCE)
    if (problem := found.get(PROBLEM)) is not None:
        raise ConfigError(f"the Ray cluster at {address}: {problem}")
    return found


def _require_somebody(address: str) -> None:
    from ..engines.ray.cluster import require_somebody

    try:
        require_somebody(address)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"nobody answers at {address} ({error}); start a cluster with 'ray start --head', or "
            "name --engine ray for one on this machine alone"
        ) from error


def do_cluster(asked: dict[str, Any], path: Path) -> dict[str, Any]:
    """Of a cluster, in a process of its own: how many nodes and CPUs it has."""
    from ..engines.ray.cluster import Cluster, imported

    ray, cluster = imported(), Cluster(asked["address"], None)
    cluster.open()
    try:
        alive = [node for node in ray.nodes() if node["Alive"]]
        return {"nodes": len(alive), "cpus": int(ray.cluster_resources().get("CPU", 0))}
    finally:
        cluster.close()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _processor() -> str:
    """By the name that its maker gives it, where Linux tells that."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


if __name__ == "__main__":
    answer(do_cluster)
