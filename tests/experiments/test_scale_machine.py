"""What is told of a machine, also where the system tells less."""

import os
import socket
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from fedfor.errors import ConfigError
from fedfor.experiments import scale_machine
from fedfor.experiments.scale_machine import machine, versions


def test_this_machine_is_told() -> None:
    here = machine("serial")
    assert here.processor
    assert 1 <= here.cores <= (os.cpu_count() or 1)
    assert here.memory is not None
    assert here.memory > 2**28
    assert (here.nodes, here.cpus) == (None, None)
    assert here.room == here.cores


def test_of_a_cluster_the_cpus_are_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(scale_machine, "_require_somebody", lambda address: None)
    monkeypatch.setattr(scale_machine, "ask", lambda *asked: {"nodes": 3, "cpus": 192})
    there = machine("ray://head:10001")
    assert (there.nodes, there.cpus, there.room) == (3, 192, 192)
    monkeypatch.setattr(scale_machine, "ask", lambda *asked: {"problem": "it is too old"})
    with pytest.raises(ConfigError, match="the Ray cluster at ray://head:10001: it is too old"):
        machine("ray://head:10001")


def test_a_system_that_tells_less_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr(scale_machine, "Path", lambda name: tmp_path / "nothing")
    here = machine("serial")
    assert (here.cores, here.memory) == (1, None)
    assert here.processor


def test_packages_that_are_not_there_have_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "ray":
            raise PackageNotFoundError
        return "1.2"

    monkeypatch.setattr(scale_machine, "version", version)
    found = versions()
    assert set(found) == {"python", "fedfor", "torch", "numpy"}
    assert found["torch"] == "1.2"


def test_an_engine_without_its_package_or_its_cluster_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"nobody answers at {address} "):
            machine(address)
        with pytest.raises(ConfigError, match=f"nobody answers at ray://{address} "):
            machine(f"ray://{address}")
    monkeypatch.setattr(scale_machine, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs Ray: pip install 'fedfor\[ray\]'"):
        machine("ray")
    assert machine("vector").cpus is None
