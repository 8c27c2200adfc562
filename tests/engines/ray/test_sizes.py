"""Neither rounds, nor clients called, nor the population make the memory of anyone grow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedfor.experiments.folder import RunFolder
from fedfor.report.loading import load_runs

from ...conftest import Cli
from ...processes import HANG

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def memory(clients: int, cohort: int, rounds: int) -> list[tuple[int, dict[str, int]]]:
    """Bytes of the driver and of each worker that trained, round by round."""
    words = ["-m", "tests.engines.ray.measured", *map(str, (clients, cohort, rounds))]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stderr
    told: list[tuple[int, dict[str, int]]] = json.loads(done.stdout)
    assert len(told) == rounds
    return told


def test_memory_stays_flat_over_500_rounds() -> None:
    told = memory(1000, 20, 500)
    drivers = [driver for driver, _ in told]
    assert max(drivers[50:]) < 1.05 * drivers[49]
    for worker in ("0", "1"):
        of_worker = [workers[worker] for _, workers in told if worker in workers]
        assert len(of_worker) > 100
        assert max(of_worker[50:]) < 1.05 * of_worker[49]


def test_a_hundred_times_the_clients_need_the_same_memory_in_the_driver() -> None:
    few, many = (memory(10**10, cohort, 4) for cohort in (30, 3_000))
    assert max(driver for driver, _ in many) < 1.1 * max(driver for driver, _ in few)


def test_ten_billion_clients_are_a_run_like_any_other(fedfor: Cli, tmp_path: Path) -> None:
    population = '{kind="iid", clients=10_000_000_000, cohort=1000, samples_per_client=8}'
    settings = {"population": population, "algorithm.name": "fedfor", "model.name": "linear"}
    words = [f"--set={key}={value}" for key, value in (settings | {"rounds": "20"}).items()]
    code, _, told = fedfor("run", "prior-shift", *words, "--engine=ray", "--workers=2", "--out=run")
    assert code == 0, told
    folder = RunFolder(tmp_path / "run")
    (run,) = load_runs([folder.path])
    assert [r["clients"] for r in run.records] == [1000] * 20
    assert all(sum(w["clients"] for w in r["workers"]) == 1000 for r in run.records)
    assert run.records[-1]["state_bytes"] == 0
    assert (folder.summary() or {})["rounds"] == 20
    assert (folder.path / "model.safetensors").is_file()
    code, _, told = fedfor("report", "run", "-o", "report.html")
    assert code == 0, told
    assert "fedfor" in (tmp_path / "report.html").read_text()
