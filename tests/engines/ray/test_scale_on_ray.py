"""`fedfor scale` on a real cluster: as many workers as are asked for, and what they did."""

from pathlib import Path

import pytest

from fedfor.experiments.scale_results import load_scale

from ...conftest import Cli
from ...processes import wait_until
from .conftest import Nodes

SMALL = "scale --populations 1000 --cohorts 8 --models linear --rounds 2 --samples 4 --out s"


def test_workers_of_a_cluster_are_measured(
    fedfor: Cli, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMIT", "made")
    code, out, err = fedfor(*SMALL.split(), "--engine", nodes.address, "--workers", "1,2")
    assert (code, err) == (0, ""), out
    results = load_scale(Path("s"))
    assert (results.made.machine.nodes, results.made.machine.cpus) == (4, 3)  # one is the head
    two, one = results.cases
    assert (two.case.workers, one.case.workers) == (2, 1)
    for measured in (two, one):
        assert len(measured.seconds) == 2
        assert len(measured.workers) == measured.case.workers
        assert sum(worker.clients for worker in measured.workers) == 2 * 8
        for worker in measured.workers:
            assert worker.memory > 50 * 2**20  # Python and torch alone are more
            assert 0 <= worker.busy <= 1.01
    assert results.speed_up(two) is not None
    for title in ("speed-up", "busy", "worker MiB"):
        assert title in Path("s/table.md").read_text()
    wait_until(lambda: not nodes.actors(), "all workers are gone")


def test_more_workers_than_the_cluster_has_cpus_are_refused(fedfor: Cli, nodes: Nodes) -> None:
    code, _, err = fedfor(*SMALL.split(), "--engine", nodes.address, "--workers", "1,9")
    assert code == 2
    assert f"--workers 9: the cluster at {nodes.address} has room for 3" in err
    assert not Path("s").exists()
