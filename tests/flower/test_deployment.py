"""Real SuperLink, SuperNode, ServerApp and ClientApp processes on loopback.

Flower starts a process for every message to a client, so a round takes ten seconds here, nearly
all of it imports.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fedfor
from fedfor.data import Population
from fedfor.data.population import Partition
from fedfor.experiments.folder import RunFolder
from fedfor.experiments.simulate import History

from ..processes import HANG, wait_until
from .fedtest_app.fedtest.task import SEED, TRAINING, new_model, people
from .processes import Federation, Run, make_key

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals"),
]


def simulated(algorithm: str, population: Population, rounds: int) -> History:
    return fedfor.simulate(
        algorithm,
        population,
        new_model(),
        rounds=rounds,
        cohort=population.size,
        seed=SEED,
        training=TRAINING,
        engine="serial",
    )


def assert_agree(run: Run, history: History) -> None:
    """The final model to 1e-5, as the test of a federation on other machines would have it."""
    expected = history.model.state_dict()
    model = load_file(run.folder / "model.safetensors")
    assert model.keys() == expected.keys()
    for name, tensor in model.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-5)


def records_of(run: Run) -> list[dict[str, Any]]:
    return RunFolder(run.folder).records()


@contextmanager
def two_nodes(folder: Path, **how: Any) -> Iterator[Federation]:
    with Federation(folder / "f", **how) as federation:
        for number in range(2):
            federation.start_node(number)
        yield federation


@pytest.fixture(scope="class")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with two_nodes(tmp_path_factory.mktemp("secure"), secure=True) as federation:
        yield federation


@pytest.fixture(scope="class")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with two_nodes(tmp_path_factory.mktemp("plain")) as federation:
        yield federation


class TestWithTlsAndKeys:
    def test_tls_and_keys(self, secure: Federation, tmp_path: Path) -> None:
        """Three rounds in the cross-device form and, beside them, three in the cross-silo form."""
        device, silo = tmp_path / "device", tmp_path / "silo"
        runs = {
            "cross-device": secure.run(folder=device, nodes=2, rounds=3),
            "cross-silo": secure.run(folder=silo, nodes=2, rounds=3, form="cross-silo"),
        }
        # Those that must not get in, while the others work.
        make_key(secure.folder / "stranger")
        tls = ["--root-certificates", str(secure.ca)]
        key = ["--auth-supernode-private-key", str(secure.folder / "stranger")]
        stranger = secure.start_node(2, *tls, *key)
        keyless = secure.start_node(3, *tls)
        in_clear = secure.start_node(4, "--insecure", "--max-retries", "2")
        for run in runs.values():
            run.finish()
        listed = json.loads(secure.flwr("supernode", "list", "--format", "json"))["nodes"]
        for name in (stranger, keyless, in_clear):
            assert secure.processes[name].wait(timeout=HANG) != 0, secure.log(name)
        assert "Failed to activate SuperNode" in secure.log(stranger)
        assert "must be registered via the CLI" in secure.log(keyless)
        assert "SuperNode ID" not in secure.log(in_clear)
        assert len(listed) == 2
        for form, run in runs.items():
            records = records_of(run)
            history = simulated("fedfor", people(2), len(records))
            assert_agree(run, history)
            for ours, theirs in zip(records, history.records, strict=True):
                for key_ in (
                    "clients",
                    "up",
                    "down_cross_device",
                    "down_cross_silo",
                    "local_steps",
                ):
                    assert ours[key_] == theirs[key_], key_
                assert ours["form"] == form
                assert (ours["attempts"], ours["rejected"], ours["state_bytes"]) == (1, [], 0)

    def test_a_supernode_is_killed_and_one_started_anew(
        self, secure: Federation, tmp_path: Path
    ) -> None:
        """Flower takes a minute to miss a node, and lets its key in again only then: so the new one
        has a key of its own."""
        marks = tmp_path / "marks"
        marks.mkdir()
        run = secure.run(folder=tmp_path / "run", nodes=2, rounds=3, marks=marks, hold="2-1")
        try:
            wait_until((marks / "2-1").exists, "node 1 trains in round 2")
            secure.kill("node1")
        finally:
            (marks / "go-on").touch()
        secure.start_node(1, key="replacement")
        run.finish()
        records = records_of(run)
        assert [(r["round"], r["clients"]) for r in records] == [(1, 2), (2, 1), (3, 2)]
        (lost,) = records[1]["rejected"]
        assert f"SuperNode ID: {lost['node']}" in secure.log("node1")
        assert "Sending: train message" in secure.log("replacement")


class TestInTheClear:
    def test_the_serverapp_is_killed_and_resumes(self, plain: Federation, tmp_path: Path) -> None:
        marks = tmp_path / "marks"
        marks.mkdir()
        settings = {
            "folder": tmp_path / "run",
            "rounds": 3,
            "nodes": 2,
            "marks": marks,
            "hold": "3-0",
        }
        broken = plain.run(**settings)
        try:
            wait_until((marks / "3-0").exists, "node 0 trains in round 3")
            os.kill(int((marks / "server.pid").read_text()), signal.SIGKILL)
        finally:
            (marks / "go-on").touch()
        assert len(records_of(broken)) == 2
        run = plain.run(**settings).finish()
        assert "Going on after round 2 of 3" in run.log
        assert len(records_of(run)) == 3
        # Which is that of the unbroken run, as above.
        assert_agree(run, simulated("fedfor", people(2), 3))

    def test_other_algorithms_agree_with_the_simulator(
        self, plain: Federation, tmp_path: Path
    ) -> None:
        names = ("feddyn", "scaffold+fedadam", "fedcurv")
        runs = {
            name: plain.run(folder=tmp_path / name, rounds=2, nodes=2, algorithm=name)
            for name in names
        }
        for run in runs.values():
            run.finish()
        for name, run in runs.items():
            history = simulated(name, people(2), 2)
            assert_agree(run, history)
            for ours, theirs in zip(records_of(run), history.records, strict=True):
                for key in ("up", "down_cross_device", "state_bytes", "clients_with_state"):
                    assert ours[key] == theirs[key], (name, key)


def test_bad_nodes_are_named_and_the_others_result_stands(tmp_path: Path) -> None:
    faults = {2: "nan", 3: "shape", 4: "raise"}
    with Federation(tmp_path / "f") as federation:
        for number in range(5):
            federation.start_node(number, fault=faults.get(number, ""))
        run = federation.run(folder=tmp_path / "run", rounds=2, nodes=5, min_replies=2).finish()
        wait_until(lambda: "finished in" in run.log, "the log says that the run is over")
    everyone = people(5)
    good = Partition(everyone.split, [everyone.rows(k) for k in (0, 1)])
    assert_agree(run, simulated("fedfor", good, 2))
    reasons = {2: "NaN or infinity in", 3: "has shape", 4: "the disk of this node is full"}
    for record in records_of(run):
        assert record["clients"] == 2
        told = {r["node"]: r["why"] for r in record["rejected"]}
        assert len(told) == 3
        for number, reason in reasons.items():
            (node,) = (n for n in told if f"SuperNode ID: {n}" in federation.log(f"node{number}"))
            assert reason in told[node]
            assert f"Rejected the reply of node {node}" in run.log
