"""A comparison on the vector engine: all its runs in one stack."""

from pathlib import Path

import pytest

from fedfor.errors import DivergedError, FedforError
from fedfor.experiments.build import Shared, build_simulation
from fedfor.experiments.compare import _bundles, compare
from fedfor.experiments.comparison import Comparison
from fedfor.experiments.folder import RunFolder
from fedfor.experiments.metrics import summarise
from fedfor.experiments.run import run_in_folder, start_run, steps_in_folder
from fedfor.experiments.simulation import Record
from fedfor.experiments.together import drive_together
from fedfor.experiments.work import Steps

from .test_run import TABLES

ALGORITHMS = ["fedavg", "fedfor,alpha=3", "scaffold,training.lr=0.02", "fedfor+fedadam"]


def planned(path: Path, engine: str, algorithms: list[str] = ALGORITHMS) -> Comparison:
    tables = {
        **TABLES,
        "rounds": 4,
        "engine": engine,
        "model": {"name": "mlp"},
        "compare": {"algorithms": algorithms, "seeds": 2},
    }
    return Comparison(tables, path)


def figures(folder: RunFolder) -> list[Record]:
    return [{k: v for k, v in r.items() if k != "seconds"} for r in folder.records()]


def assert_alike(ours: list[Record], theirs: list[Record]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for key, value in b.items():
            close = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            assert a[key] == close, key


def test_a_sweep_is_the_runs_one_by_one(tmp_path: Path) -> None:
    together, apart = (planned(tmp_path / e, e) for e in ("vector", "serial"))
    for comparison in (together, apart):
        ended = compare(comparison, workers=1)
        assert [e.problem for e in ended] == [None] * 8
    for ours, theirs in zip(together.runs, apart.runs, strict=True):
        assert_alike(figures(ours.folder), figures(theirs.folder))
        assert '"engine": "vector"' in (ours.folder.path / "environment.json").read_text()


def test_runs_count_as_beside_each_other_to_the_end_of_their_last_round() -> None:
    """The time of a round is divided among them; the last to end did not take all of it."""
    told: list[object] = []

    def run(name: str) -> Steps[str]:
        told.append(name)
        return name
        yield

    drive_together([run("a"), run("b")], lambda place, end: told.append((place, end)))
    assert told == ["a", "b", (0, "a"), (1, "b")]


def test_all_clients_of_all_runs_are_one_stack(tmp_path: Path) -> None:
    shared = Shared()
    runs = planned(tmp_path / "c", "vector").runs
    simulations = [build_simulation(run.config, shared=shared) for run in runs]
    assert len({id(s.engine.trainer) for s in simulations}) == 1  # type: ignore[attr-defined]
    assert len({id(s.population.train) for s in simulations}) == 1


def test_a_sweep_goes_on_where_each_run_was(tmp_path: Path) -> None:
    """Some runs further than others, as after a kill: all end as if nothing had happened."""
    whole, cut = (planned(tmp_path / name, "vector") for name in ("whole", "cut"))
    compare(whole, workers=1)
    cut.create()
    for stop_at, run in zip((1, 3, 2), cut.runs, strict=False):
        start_run(run.folder, run.config)

        def stop(record: Record, at: int = stop_at) -> None:
            if record["round"] == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_in_folder(run.folder, stop)
    ended = compare(cut, workers=1)
    assert [e.problem for e in ended] == [None] * 8
    for ours, theirs in zip(cut.runs, whole.runs, strict=True):
        assert_alike(figures(ours.folder), figures(theirs.folder))


def test_a_run_that_diverges_or_fails_ends_alone(tmp_path: Path) -> None:
    runs = planned(tmp_path / "c", "vector", ["fedavg", "fedavg,training.lr=1e30", "fedprox"]).runs
    for run in runs:
        start_run(run.folder, run.config)
    runs[2].folder.config_path.write_text("rounds = 'many'\n")  # of no use any more
    ended: dict[int, object] = {}
    drive_together(
        [steps_in_folder(run.folder, shared=Shared()) for run in runs], ended.__setitem__
    )
    kinds = [type(ended[i]) for i in range(6)]
    assert [issubclass(k, DivergedError) for k in kinds] == [False, True, False, False, True, False]
    assert isinstance(ended[2], FedforError)
    assert "diverged" in (runs[1].folder.summary() or {})
    for place in (0, 3, 5):
        records = runs[place].folder.records()
        assert summarise(records, 4, 2, None)["rounds"] == 4


@pytest.mark.processes
def test_two_workers_share_the_runs(tmp_path: Path) -> None:
    comparison = planned(tmp_path / "c", "vector", ["fedavg", "fedfor", "fedprox"])
    ended = compare(comparison, workers=2)
    assert [e.problem for e in ended] == [None] * 6


def test_going_on_takes_as_many_workers_as_before(tmp_path: Path) -> None:
    comparison = planned(tmp_path / "c", "vector")
    comparison.create()
    default = comparison.workers(None)
    assert comparison.workers(3) == 3
    assert Comparison.saved(tmp_path / "c").workers(None) == 3
    assert comparison.workers(default) == comparison.workers(None) == default


def test_runs_that_cannot_be_stacked_stand_in_nobodys_way(tmp_path: Path) -> None:
    """Wherever they come in the list."""
    runs = planned(tmp_path / "c", "vector").runs[:5]
    engines = ["serial", "vector", "vector", "serial", "vector"]
    for workers, shares in ((1, [3, 1, 1]), (2, [2, 1, 1, 1])):
        bundles = _bundles(runs, engines, workers)
        assert [len(bundle) for bundle in bundles] == shares
        assert [run for bundle in bundles[:-2] for run in bundle] == [runs[1], runs[2], runs[4]]
    assert _bundles([], [], 1) == []
