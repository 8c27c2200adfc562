"""The command line, on a cluster and where there is none."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray._private.utils import check_version_info

from fedfor.engines.ray import cluster
from fedfor.engines.ray.cluster import SOON, Cluster, require_somebody
from fedfor.errors import ConfigError
from fedfor.experiments.folder import RunFolder

from ...conftest import Cli
from ...processes import wait_until
from .conftest import Nodes

ALGORITHMS = ("fedavg", "fedfor", "scaffold")
SETTINGS = (
    "--set=rounds=4",
    "--set=model.name=linear",
    '--set=population={kind="iid", clients=12, cohort=5}',
    "--set=ray.within=serial",
)


def summaries(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each run what came of it, but for how long it took."""
    found = {}
    for path in folder.glob("runs/*/*/summary.json"):
        told = json.loads(path.read_text())
        assert told.pop("seconds") > 0
        found[path.parent.relative_to(folder).as_posix()] = told
    return found


def test_a_comparison_has_the_numbers_of_serial(nodes: Nodes, fedfor: Cli, tmp_path: Path) -> None:
    """All of them, and the models that they are of."""
    tables = []
    for where, engine, workers in (("here", "serial", 1), ("there", nodes.address, 2)):
        out = tmp_path / where
        named = [f"--algorithm={name}" for name in ALGORITHMS]
        chosen = [f"--engine={engine}", "--seeds=1", f"--workers={workers}", f"--out={out}"]
        code, _, told = fedfor("compare", "prior-shift", *named, *SETTINGS, *chosen)
        assert code == 0, told
        tables.append(summaries(out))
    assert sorted(tables[0]) == [f"runs/{name}/seed-0" for name in sorted(ALGORITHMS)]
    assert tables[1] == tables[0]
    for record in RunFolder(tmp_path / "there/runs/fedfor/seed-0").records():
        assert sum(worker["clients"] for worker in record["workers"]) == 5
        assert all(0 <= worker["busy"] <= 1 for worker in record["workers"])
        assert any(worker["busy"] > 0 for worker in record["workers"])
    wait_until(lambda: not nodes.actors(), "all workers are gone")


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens, and nobody can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("how", ["ray://", ""])
def test_an_address_where_nobody_is_gives_a_sentence(
    nobody: str, how: str, fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: Ray would try for half a minute, or for minutes."""
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray is asked, and does not give up"))
    address = how + nobody
    out = tmp_path / "run"
    code, _, told = fedfor("run", "prior-shift", *SETTINGS, f"--engine={address}", f"--out={out}")
    said = " ".join(told.split())
    assert code == 2
    assert f"there is no Ray cluster at {address} (" in said
    assert "start one with 'ray start --head'" in said
    assert "Traceback" not in said
    assert not ray.is_initialized()


def test_somebody_who_does_not_answer_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def silent(where: tuple[str, int], timeout: float) -> None:
        asked.append((where, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    for address in ("ray://head.example:10001", "10.0.0.7:6379", "[fe80::1]:6379"):
        with pytest.raises(TimeoutError):
            require_somebody(address)
    named = [("head.example", 10001), ("10.0.0.7", 6379), ("fe80::1", 6379)]
    assert asked == [(where, SOON) for where in named]
    for name in ("auto", "local", "anyscale://mine"):  # which RAY_ADDRESS may say: Ray knows where
        require_somebody(name)
    assert len(asked) == 3


BUSY = """Initialization failure from server:
Traceback (most recent call last):
  File "proxier.py", line 772, in Datapath
RuntimeError: Proxy failed to Connect to backend! Check the logs.
"""
"""What Ray says to a driver from outside whose process on the cluster was not ready in time."""


def refusing(monkeypatch: pytest.MonkeyPatch, *problems: Exception | None) -> list[str]:
    """A cluster that answers so, one after another: None lets in. Gives whom it was asked for."""
    asked, left = list[str](), list(problems)

    def init(address: str, **_: object) -> None:
        asked.append(address)
        if (problem := left.pop(0)) is not None:
            raise problem

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(cluster, "AGAIN_AFTER", 0.0)
    monkeypatch.setattr(cluster, "require_somebody", lambda address: None)
    return asked


DEAD = """Initialization failure from server:
Traceback (most recent call last):
RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for logs.
"""
"""Where that process died at once."""

DYING = """Initialization failure from server:
Traceback (most recent call last):
psutil.ZombieProcess: PID still exists but it's a zombie (pid=6202)
"""
"""And where it died while the proxy looked at it."""


def test_a_cluster_whose_proxy_failed_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    problems = map(ConnectionAbortedError, (BUSY, DEAD, DYING))
    asked = refusing(monkeypatch, *problems, None)
    Cluster("ray://head:10001", 2).open()
    assert asked == ["ray://head:10001"] * 4
    (told,) = [record.message for record in caplog.records]
    assert "did not let us in (RuntimeError: Proxy failed to Connect" in told
    assert told.endswith("; asking again")


def test_a_cluster_whose_processes_all_die_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = refusing(monkeypatch, *[ConnectionAbortedError(DEAD)] * cluster.DEATHS)
    with pytest.raises(ConfigError, match="Starting Ray client server failed"):
        Cluster("ray://head:10001", 2).open()
    assert len(asked) == cluster.DEATHS


@pytest.mark.parametrize(
    ("problem", "patience", "words"),
    [
        (BUSY, 0.0, "RuntimeError: Proxy failed to Connect to backend!"),
        ("Initialization failure:\nno such job", 1e9, "Initialization failure: no such job"),
    ],
)
def test_a_cluster_that_lets_nobody_in_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, problem: str, patience: float, words: str
) -> None:
    """At once where another try would end no better."""
    monkeypatch.setattr(cluster, "PATIENCE", patience)
    asked = refusing(monkeypatch, ConnectionAbortedError(problem))
    with pytest.raises(ConfigError, match=r"at ray://head:10001 did not let us in \(") as told:
        Cluster("ray://head:10001", 2).open()
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert len(asked) == 1


def test_a_cluster_of_another_version_is_told_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """In what Ray itself says of it."""
    theirs = {"ray_version": "1.2.3", "python_version": "3.9.9", "ray_commit": "abc"}
    with pytest.raises(RuntimeError) as error:
        check_version_info(theirs, "This process")
    refusing(monkeypatch, error.value)
    with pytest.raises(ConfigError) as told:
        Cluster("ray://head:10001", 2).open()
    assert "Version mismatch" in str(told.value)
    for version in (ray.__version__, "1.2.3", "3.9.9"):
        assert version in str(told.value).partition("; is it of")[0]


LOCKED = """
import threading
from torch import nn

class Locked(nn.Linear):
    def __init__(self, shape, classes):
        super().__init__(64, classes)
        self.lock = threading.Lock()

    def forward(self, x):
        return super().forward(x.flatten(1))
"""


def test_a_model_that_cannot_be_sent_is_told(
    nodes: Nodes, fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked.py").write_text(LOCKED)
    monkeypatch.syspath_prepend(tmp_path)
    mine = "--set=model.name=locked:Locked"
    code, _, told = fedfor("run", "prior-shift", *SETTINGS, mine, f"--engine={nodes.address}")
    said = " ".join(told.split())
    assert code == 2
    assert "the run cannot be sent to workers (" in said
    assert "cannot pickle '_thread.lock' object" in said
    assert "Traceback" not in said
    wait_until(lambda: not nodes.actors(), "all workers are gone")


def test_a_device_of_no_kind_is_refused_before_anything_is_started(
    fedfor: Cli, tmp_path: Path
) -> None:
    code, _, told = fedfor("run", "prior-shift", "--engine=ray", "--set=device=gpu", "--out=run")
    assert code == 2
    assert "device 'gpu' is none of the ray engine's; use cpu or cuda" in " ".join(told.split())
    assert not (tmp_path / "run").exists()
