"""A driver that ends, is interrupted or is killed; and its run, which goes on elsewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fedfor.protocol.states import SEEN

from ...conftest import Cli
from ...processes import HANG, wait_until
from .conftest import LOOPBACK, Nodes, processes

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray")]

SETTINGS = {
    "algorithm.name": "scaffold",
    "model.name": "linear",
    "population": '{kind="iid", clients=30, cohort=12}',
    "ray.within": "serial",
}
LISTENING, OF_LOOPBACK = "0A", {"0100007F", "0000000000000000FFFF00000100007F"}
"""As /proc/net writes it: 127.0.0.1, and the same in IPv6."""
OF_CLUSTER = ("workers", "workers_lost", "slices_repeated")


def command(folder: Path, engine: str, rounds: int, *more: str) -> list[str]:
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    chosen = [f"--engine={engine}", f"--set=rounds={rounds}", f"--out={folder}", *more]
    return ["run", "prior-shift", *settings, *chosen]


def start(words: list[str], cwd: Path, **how: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "fedfor", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **how,
    )


def end(driver: "subprocess.Popen[bytes]") -> str:
    """What it has said, once it has ended by itself."""
    out, _ = driver.communicate(timeout=HANG)
    return out.decode()


def wait_for_rounds(driver: "subprocess.Popen[bytes]", folder: Path, rounds: int) -> None:
    try:
        wait_until(lambda: len(records(folder)) >= rounds, f"{rounds} rounds in {folder}", driver)
    except AssertionError as error:
        driver.kill()
        raise AssertionError(f"{error}\n{driver.communicate(timeout=HANG)[0].decode()}") from error


def records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]
    return [{k: v for k, v in r.items() if k not in (*OF_CLUSTER, "seconds")} for r in told]


def killed_after(folder: Path, rounds: int, words: list[str], cwd: Path) -> None:
    driver = start(words, cwd)
    try:
        wait_for_rounds(driver, folder, rounds)
    finally:
        driver.kill()
        driver.communicate(timeout=HANG)


def test_a_driver_that_is_killed_goes_on_with_fewer_nodes_and_on_another_cluster(
    nodes: Nodes, tmp_path: Path, fedfor: Cli
) -> None:
    rounds, folder = 60, tmp_path / "run"
    code, _, told = fedfor(*command(tmp_path / "whole", "serial", rounds))
    assert code == 0, told

    killed_after(folder, 5, command(folder, nodes.address, rounds, "--workers=3"), tmp_path)
    nodes.lose(nodes.cluster.list_all_nodes()[-1])
    try:
        many = len(records(folder)) + 5
        killed_after(folder, many, ["resume", str(folder), "--workers=2"], tmp_path)
    finally:
        nodes.add()
    assert len(records(folder)) < rounds
    last = start(["resume", str(folder), "--engine=ray", "--workers=1"], tmp_path)
    out = end(last)
    assert last.returncode == 0, out

    assert records(folder) == records(tmp_path / "whole")
    ours, whole = (path / "model.safetensors" for path in (folder, tmp_path / "whole"))
    assert ours.read_bytes() == whole.read_bytes()
    wait_until(lambda: not nodes.actors(), "all workers are gone")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interrupted_comparison_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    """Its cluster is another process's than that which is told first."""
    folder = tmp_path / "compared"
    settings = ["--set=rounds=100000", "--set=model.name=linear", "--seeds=1", "--workers=2"]
    algorithms = ["--algorithm=scaffold", "--algorithm=fedavg"]
    words = ["compare", "prior-shift", *algorithms, *settings, "--engine=ray", f"--out={folder}"]
    driver = start(words, tmp_path, start_new_session=True)
    run = folder / "runs/scaffold/seed-0"
    try:
        wait_for_rounds(driver, run, 2)
        assert list((run / "clients").glob(f"{SEEN}*"))
        os.killpg(driver.pid, signal.SIGINT)
        out = end(driver)
    finally:
        driver.kill()
        driver.communicate(timeout=HANG)
    assert "Traceback" not in out
    assert f"fedfor resume {folder}" in out.replace("\n", "")
    wait_until(lambda: not processes(place), "the cluster is gone")
    assert not list(place.iterdir())
    assert not list((run / "clients").glob(f"{SEEN}*"))


def test_a_driver_from_outside_the_cluster(nodes: Nodes, tmp_path: Path, fedfor: Cli) -> None:
    code, _, told = fedfor(*command(tmp_path / "whole", "serial", 4))
    assert code == 0, told
    address = f"ray://127.0.0.1:{nodes.client_port}"
    driver = start(command(tmp_path / "run", address, 4, "--workers=2"), tmp_path)
    out = end(driver)
    assert driver.returncode == 0, out
    assert records(tmp_path / "run") == records(tmp_path / "whole")
    ours, whole = (path / "model.safetensors" for path in (tmp_path / "run", tmp_path / "whole"))
    assert ours.read_bytes() == whole.read_bytes()
    wait_until(lambda: not nodes.actors(), "all workers are gone")


def test_a_worker_stands_still_for_a_driver_from_outside(nodes: Nodes, tmp_path: Path) -> None:
    """Not all that Ray's own drivers can ask of a worker can be asked from there."""
    words = ["-m", "tests.engines.ray.outside", f"ray://127.0.0.1:{nodes.client_port}"]
    done = subprocess.run(
        [sys.executable, *words, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    wait_until(lambda: not nodes.actors(), "all workers are gone")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the files of a cluster of one's own are, and nobody else's."""
    path = Path(tempfile.mkdtemp(prefix="fed", dir="/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(path))
    monkeypatch.delenv(LOOPBACK)  # as it is elsewhere
    yield path
    shutil.rmtree(path, ignore_errors=True)


def named_in_shared_memory(pids: list[int]) -> set[str]:
    """What would stay there when these processes are gone: what has no name goes with them."""
    found = {link for pid in pids for link in links(pid) if link.startswith("/dev/shm/")}
    return {link for link in found if not link.endswith(" (deleted)")}


def assert_on_loopback(pids: list[int]) -> None:
    """Nobody from outside can give a cluster of one's own any work."""
    own = {link for pid in pids for link in links(pid)}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *more = line.split()
            if state == LISTENING and f"socket:[{more[5]}]" in own:
                found.append(local.partition(":")[0])
    assert len(found) > 4
    assert set(found) <= OF_LOOPBACK, found


def links(pid: int) -> list[str]:
    found = []
    with suppress(OSError):  # ended meanwhile
        for number in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.append(str(number.readlink()))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", ["to the end", "SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_behind(place: Path, tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    rounds = 3 if how == "to the end" else 100_000
    driver = start(command(folder, "ray", rounds, "--workers=2"), tmp_path)
    try:
        if how != "to the end":
            wait_for_rounds(driver, folder, 2)
            assert not named_in_shared_memory(processes(place))
            assert len(processes(place)) > 4  # so that what is looked for below can be found
            assert_on_loopback(processes(place))
            driver.send_signal(getattr(signal, how))
        out = end(driver)
    finally:
        driver.kill()
        driver.communicate(timeout=HANG)
    assert "Traceback" not in out
    if how == "SIGINT":
        assert f"fedfor resume {folder}" in out.replace("\n", "")
    wait_until(lambda: not processes(place), "the cluster is gone")
    if how == "SIGKILL":  # which leaves no time to tidy up: the next one does
        assert list(place.iterdir())
        ended = start([*command(tmp_path / "next", "ray", 1), "--workers=1"], tmp_path)
        out = end(ended)
        assert ended.returncode == 0, out
    assert not list(place.iterdir())
