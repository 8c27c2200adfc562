"""Workers and nodes that are lost, stand still or run out of memory: the result is the same."""

import functools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import ray
import torch
from torch import nn

from fedfor.algorithms import algorithm
from fedfor.engines import SerialEngine, Training
from fedfor.engines.clustered import Clustered, make_ray_engine
from fedfor.engines.fisher import Loss
from fedfor.engines.ray import pool as pool_module
from fedfor.errors import FedforError
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.store import DiskStore, MemoryStore, Store

from ...processes import wait_until
from ..stacks import build, everything, ragged
from .conftest import Nodes
from .deadly import halting, killing, stopping

if TYPE_CHECKING:
    from fedfor.engines.ray.engine import RayEngine

TRAINING = Training(epochs=1, batch_size=7, lr=0.05)
CLIENTS = (4, 18, 11, 25, 5, 12, 9, 14)
ROUNDS = 3


def wide(shape: Any, classes: int) -> nn.Module:
    """With sums so large that they stay in the memory of the node that made them."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 600), nn.ReLU(), nn.Linear(600, classes))


def simulation(name: str, store: Store, loss: Loss, how: Clustered | None) -> Simulation:
    model, chosen, population = build(wide), algorithm(name), ragged(CLIENTS)
    what = (model, chosen, TRAINING, 0)
    engine = (
        SerialEngine(*what)
        if how is None
        else make_ray_engine(how, population, *what, store, loss, cohort=6)
    )
    return Simulation(population, model, chosen, TRAINING, engine, cohort=6, seed=0, store=store)


@contextmanager
def on_cluster(
    address: str, loss: Loss, name: str = "scaffold", store: Store | None = None, workers: int = 3
) -> Iterator[Simulation]:
    how = Clustered(address, workers, "serial")
    run = simulation(name, MemoryStore() if store is None else store, loss, how)
    try:
        yield run
    finally:
        run.engine.close()


@functools.cache
def undisturbed(name: str) -> tuple[dict[str, torch.Tensor], list[Record]]:
    run = simulation(name, MemoryStore(), nn.functional.cross_entropy, None)
    records = [run.round() for _ in range(ROUNDS)]
    return everything(run), records


def assert_undisturbed(run: Simulation, records: list[Record], name: str = "scaffold") -> None:
    """All that the run is made of, to the bit."""
    expected, told = undisturbed(name)
    found = everything(run)
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor), key
    for mine, theirs in zip(records, told, strict=True):
        assert {key: mine[key] for key in theirs} == theirs


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_worker_that_is_killed(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture, on_disk: bool
) -> None:
    store = DiskStore(tmp_path / "states") if on_disk else None
    loss = functools.partial(killing, flag=tmp_path / "killed")
    with on_cluster(nodes.address, loss, store=store) as run:
        records = [run.round() for _ in range(ROUNDS)]
        assert_undisturbed(run, records)
    assert [r.get("workers_lost") for r in records] == [1, None, None]
    (line,) = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert "was lost, and with it" in line
    assert "of round 1; done again elsewhere" in line


@pytest.mark.usefixtures("patient")
def test_a_slice_that_ends_whoever_takes_it(nodes: Nodes, tmp_path: Path) -> None:
    loss = functools.partial(killing, flag=tmp_path / "killed", times=100)
    with on_cluster(nodes.address, loss, "fedfor", workers=1) as run:
        with pytest.raises(FedforError, match=r"as 3 workers before: .* lower lanes or") as told:
            run.round()
        assert "\n" not in str(told.value)


@pytest.mark.usefixtures("patient")
def test_a_node_that_is_lost(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "halted"
    with (
        on_cluster(nodes.address, functools.partial(halting, flag=flag)) as run,
        losing(nodes, flag),
    ):
        flag.with_suffix(".spared").write_text(node_of_driver(run))
        records = [run.round() for _ in range(ROUNDS)]
        assert_undisturbed(run, records)
    assert sum(r.get("workers_lost", 0) for r in records) == 1
    assert sum("was lost" in r.message for r in caplog.records) == 1


def node_of_driver(run: Simulation) -> str:
    """The driver works through one of the nodes, as there are several on its machine."""
    cast("RayEngine", run.engine).pool.start()
    return str(ray.get_runtime_context().get_node_id())


def wait_for_all_workers(run: Simulation) -> None:
    crew = cast("RayEngine", run.engine).pool.crew
    while awaited := crew.awaited:
        crew.welcome(awaited[0])
    assert len(crew.members) == crew.wanted


@contextmanager
def losing(nodes: Nodes, flag: Path) -> Iterator[None]:
    """Switches off the node that has put its name there, and another on in its place."""

    def wait_and_lose() -> None:
        wait_until(flag.exists, "a worker stands still")
        named = flag.read_text()
        nodes.lose(next(n for n in nodes.cluster.worker_nodes if n.node_id == named))

    thread = threading.Thread(target=wait_and_lose)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        nodes.add()


@pytest.mark.usefixtures("patient")
def test_sums_that_went_with_their_node(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients were all trained, but nobody has added up what they sent."""
    add_up, lost, spared = pool_module.Pool._add_up, list[str](), list[str]()

    def add_up_too_late(pool: Any, job: Any) -> Any:
        if not lost:
            workers = [answer.worker for answer in job.answers.values()]
            there = [pool.crew.members[worker].about.node for worker in workers]
            lost.append(next(node for node in there if node not in spared))
            nodes.lose(next(n for n in nodes.cluster.worker_nodes if n.node_id == lost[0]))
        return add_up(pool, job)

    monkeypatch.setattr(pool_module.Pool, "_add_up", add_up_too_late)
    try:
        with on_cluster(nodes.address, nn.functional.cross_entropy) as run:
            spared.append(node_of_driver(run))
            wait_for_all_workers(run)  # so that each has a slice
            records = [run.round() for _ in range(ROUNDS)]
            assert_undisturbed(run, records)
    finally:
        nodes.add()
    assert any("went with a machine that was lost" in r.message for r in caplog.records)


def test_a_worker_that_stands_still(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its slice is given to another, which is not waited for longer than it should take."""
    caplog.set_level(logging.INFO)
    flag = tmp_path / "stopped"
    with on_cluster(nodes.address, functools.partial(stopping, flag=flag)) as run:
        records = [run.round() for _ in range(ROUNDS)]
        assert_undisturbed(run, records)
    assert sum(r.get("slices_repeated", 0) for r in records) >= 1
    assert any(r.message.startswith("slow: ") for r in caplog.records)
    worker = Path(f"/proc/{flag.read_text()}")
    wait_until(lambda: not worker.exists(), "the worker that stood still is gone")
