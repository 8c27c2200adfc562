"""What clients keep, on disk or with the driver, while workers come and go."""

import functools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from fedfor.algorithms import algorithm
from fedfor.engines import SerialEngine, Training
from fedfor.engines.clustered import Clustered, make_ray_engine
from fedfor.engines.fisher import Loss
from fedfor.engines.ray.engine import RayEngine
from fedfor.engines.ray.pool import Pool
from fedfor.errors import FedforError
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.store import DiskStore, MemoryStore, Store
from fedfor.experiments.together import drive_together
from fedfor.protocol import Kept
from fedfor.protocol.states import StateFiles
from fedfor.tensors import Tensors

from ..stacks import build, everything, ragged
from .conftest import Nodes
from .deadly import failing, killing

pytestmark = pytest.mark.usefixtures("patient")

TRAINING = Training(epochs=1, batch_size=7, lr=0.05)
CLIENTS = (4, 18, 11, 25, 5, 12, 9, 14)
STATEFUL = ("scaffold", "feddyn", "fedcurv")
ROUNDS = 4


def wide(shape: Any, classes: int) -> nn.Module:
    """With states so large that they lie in the memory that processes share."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, classes))


def simulation(
    name: str, store: Store, loss: Loss, address: str | None, pool: Pool | None = None
) -> Simulation:
    model, chosen, population = build(wide), algorithm(name), ragged(CLIENTS)
    what = (model, chosen, TRAINING, 0)
    engine: SerialEngine | RayEngine = SerialEngine(*what, loss)
    if address is not None:
        how = Clustered(address, 2, "serial", pool=pool)
        engine = make_ray_engine(how, population, *what, store, loss, cohort=6)
    return Simulation(population, model, chosen, TRAINING, engine, cohort=6, seed=0, store=store)


@functools.cache
def in_one_process(name: str) -> list[Tensors]:
    """All that the run is made of, after each round."""
    run, found = simulation(name, MemoryStore(), nn.functional.cross_entropy, None), []
    for _ in range(ROUNDS):
        run.round()
        found.append({key: t.clone() for key, t in everything(run).items()})
    return found


def assert_as_after(run: Simulation, rounds: int, name: str) -> None:
    expected, found = in_one_process(name)[rounds - 1], everything(run)
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor), (name, key)


@contextmanager
def sweep(
    nodes: Nodes, loss: Loss, stores: dict[tuple[str, str], Store]
) -> Iterator[tuple[dict[tuple[str, str], Simulation], Pool]]:
    """A run for each, all with the same workers."""
    runs, pool = dict[tuple[str, str], Simulation](), None
    for (name, where), store in stores.items():
        runs[name, where] = simulation(name, store, loss, nodes.address, pool)
        pool = cast("RayEngine", runs[name, where].engine).pool
    assert pool is not None
    try:
        yield runs, pool
    finally:
        for run in runs.values():
            run.engine.close()


def round_of_all(runs: dict[tuple[str, str], Simulation]) -> list[Record]:
    ends: list[Record | Exception] = []
    drive_together([run.steps() for run in runs.values()], lambda _, end: ends.append(end))
    assert not [end for end in ends if isinstance(end, Exception)]
    return cast("list[Record]", ends)


def test_states_are_those_of_one_process_whoever_is_lost(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker between two rounds, one in the middle of one; and then none sees the folder."""
    stores: dict[tuple[str, str], Store] = {(name, "memory"): MemoryStore() for name in STATEFUL}
    stores |= {(name, "disk"): DiskStore(tmp_path / name) for name in STATEFUL}
    armed = tmp_path / "killed.0"
    armed.touch()
    loss = functools.partial(killing, flag=tmp_path / "killed")
    with sweep(nodes, loss, stores) as (runs, pool):

        def lost_in(round_: int) -> bool:
            """Do a round: whether somebody was lost."""
            records = round_of_all(runs)
            for name, where in runs:
                assert_as_after(runs[name, where], round_, name)
            return any("workers_lost" in record for record in records)

        assert not lost_in(1)
        about = next(iter(pool.crew.members.values())).about
        assert about is not None
        assert about.sees
        os.kill(about.pid, signal.SIGKILL)
        assert lost_in(2)
        armed.unlink()
        assert lost_in(3)
        for reference in pool.crew.awaited:  # or it might come amid the round, and see
            pool.crew.welcome(reference)
        for member in pool.crew.members.values():
            if member.about is not None:
                member.about = replace(member.about, sees=False)
        carried, write = list[int](), StateFiles.write
        with monkeypatch.context() as patch:

            def writing(files: StateFiles, client: int, kept: Kept) -> None:
                carried.append(client)
                write(files, client, kept)

            patch.setattr(StateFiles, "write", writing)
            lost_in(4)
        assert len(carried) == 6 * len(STATEFUL)  # here, and not where clients were trained
        for name in STATEFUL:
            assert runs[name, "disk"].store.nbytes == runs[name, "memory"].store.nbytes > 0


def test_a_round_that_fails_leaves_the_state_of_before(nodes: Nodes, tmp_path: Path) -> None:
    """Though other clients' part in it was done. Client 6 alone has a batch of two."""
    disk = DiskStore(tmp_path / "states")
    stores: dict[tuple[str, str], Store] = {("scaffold", "memory"): MemoryStore()}
    stores["scaffold", "disk"] = disk
    armed = tmp_path / "armed"
    loss = functools.partial(failing, flag=armed, batch=2)
    with sweep(nodes, loss, stores) as (runs, _):
        round_of_all(runs)
        latest = [disk.latest(client) for client in range(len(CLIENTS))]
        armed.touch()
        for run in runs.values():
            with pytest.raises(FedforError, match=r"training client 6 failed .* it was to be"):
                run.round()
            assert_as_after(run, 1, "scaffold")
        armed.unlink()
        assert [disk.latest(client) for client in range(len(CLIENTS))] == latest
        written = [round_ for _, round_ in disk.files.found()]
        assert 2 in written  # what nobody asks for, and the round done again will replace
        for t in (2, 3):
            round_of_all(runs)
            for run in runs.values():
                assert_as_after(run, t, "scaffold")
