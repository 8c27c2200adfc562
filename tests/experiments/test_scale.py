"""Nothing grows with the population; state grows with the clients seen, and is reported."""

import tracemalloc
from pathlib import Path

import pytest
import torch

from fedfor.data import IidDraws, LongTail, Population, digits
from fedfor.engines.choose import EngineName
from fedfor.experiments.simulate import simulate
from fedfor.experiments.store import DiskStore, MemoryStore
from fedfor.protocol import Kept
from fedfor.protocol.states import SEEN


def peaks(population: Population, engine: EngineName) -> list[int]:
    """Python's and numpy's memory in use after each round."""
    in_use: list[int] = []
    simulate("fedfor", population, "linear", rounds=1, engine=engine)  # imports what is needed
    tracemalloc.start()
    simulate(
        "fedfor",
        population,
        "linear",
        rounds=50,
        engine=engine,
        evaluate_every=50,
        on_round=lambda record: in_use.append(tracemalloc.get_traced_memory()[0]),
    )
    tracemalloc.stop()
    return in_use


def test_memory_is_flat_with_ten_billion_clients() -> None:
    few, many = (
        peaks(LongTail(digits(), clients, seed=0, share=0.3), "serial")
        for clients in (1000, 10**10)
    )
    # 49 further rounds leave behind their records and nothing else
    assert many[-1] - many[4] < 100_000
    assert abs(many[-1] - few[-1]) < 100_000


def test_memory_of_stacks_is_flat_too() -> None:
    """Once the step is traced."""
    in_use = peaks(IidDraws(digits(), 10**10, seed=0, samples_per_client=40), "vector")
    assert in_use[-1] - in_use[9] < 100_000


def test_stateful_methods_grow_with_the_clients_seen_and_say_so() -> None:
    store = MemoryStore()
    population = LongTail(digits(), 10**10, seed=0, share=0.3)
    history = simulate("scaffold", population, "linear", rounds=20, store=store)
    assert [r["clients_with_state"] for r in history.records] == [10 * t for t in range(1, 21)]
    model = 4 * 650
    assert [r["state_bytes"] for r in history.records] == [10 * t * model for t in range(1, 21)]
    assert len(store) == 200


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_stores_give_back_what_they_were_given(tmp_path: Path, kind: str) -> None:
    store = MemoryStore() if kind == "memory" else DiskStore(tmp_path)
    assert store.get(3) is None
    for round_ in (1, 4):
        store.put(10**10, Kept(round_, {"c": {"w": torch.full((5,), float(round_))}}))
        store.put(3, Kept(round_, {"c": {"w": torch.zeros(2)}, "d": {"w": torch.ones(1)}}))
    assert (len(store), store.nbytes) == (2, 20 + 12)
    kept = store.get(10**10)
    assert kept is not None
    assert (kept.round, kept.extras["c"]["w"].tolist()) == (4, [4.0] * 5)
    kept = store.get(3)
    assert kept is not None
    assert set(kept.extras) == {"c", "d"}


def test_what_was_half_written_is_taken_away(tmp_path: Path) -> None:
    DiskStore(tmp_path).put(5, Kept(1, {"c": {"w": torch.ones(1)}}))
    (whole,) = tmp_path.rglob("*.safetensors")
    whole.with_name(f".{whole.name}.123.456").write_bytes(b"half")
    (tmp_path / f"{SEEN}abc").touch()
    assert len(DiskStore(tmp_path, resumed_from=1)) == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [whole]


def test_disk_goes_back_as_far_as_the_checkpoints(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for t in range(1, 8):
        store.put(5, Kept(t, {"c": {"w": torch.full((1,), float(t))}}))
        store.checkpointed(max(1, t - 1))
    files = sorted(p.stem for p in tmp_path.rglob("*.safetensors"))
    assert files == ["5-5", "5-6", "5-7"]
    back = DiskStore(tmp_path, resumed_from=6)
    kept = back.get(5)
    assert kept is not None
    assert kept.round == 6
    assert not list(tmp_path.rglob("5-7.safetensors"))
