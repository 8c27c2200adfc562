"""What a folder tells of its clients' data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfor.data import digits, sample_cohort
from fedfor.experiments.build import build_data, build_population, build_simulation
from fedfor.experiments.cohort import MOST_CLIENTS, cohort
from fedfor.experiments.config import RunConfig
from fedfor.experiments.folder import RunFolder
from fedfor.experiments.load import load_config
from fedfor.experiments.run import run_in_folder, start_run

pytestmark = pytest.mark.fast

SHIFTS = {"kind": "shards", "clients": 60, "cohort": 50}


def config(**tables: Any) -> RunConfig:
    small = {"rounds": 2, "model": {"name": "linear"}, "data": {"name": "digits"}}
    return load_config({**small, "population": SHIFTS, **tables}, [])


def told(folder: RunFolder) -> Any:
    return json.loads((folder.path / "cohort.json").read_text())


def finished(path: Path, settings: RunConfig) -> RunFolder:
    folder = RunFolder(path)
    start_run(folder, settings)
    run_in_folder(folder)
    return folder


def test_it_has_the_first_clients_of_round_1(tmp_path: Path) -> None:
    settings = config(seed=3)
    found = told(finished(tmp_path / "run", settings))
    clients = sample_cohort(3, 1, 60, 50)[:MOST_CLIENTS]
    assert [c["client"] for c in found["clients"]] == clients
    assert list(found) == ["round", "classes", "class_names", "of", "population", "clients"]
    head = [found[k] for k in ("round", "classes", "class_names", "of", "population")]
    assert head == [1, 10, [], 50, 60]
    population, y = build_population(settings, digits()), digits().train.y.numpy()
    for one in found["clients"]:
        assert set(one) == {"client", "counts"}
        held = y[population.samples(one["client"], 1).rows]
        assert one["counts"] == [int((held == c).sum()) for c in range(10)]


def test_it_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """Whatever the algorithm, and however often the run was interrupted."""
    tail = {"kind": "long-tail", "cohort": 5}
    one = finished(tmp_path / "one", config(population=tail))
    two = finished(tmp_path / "two", config(population=tail, algorithm="fedprox", rounds=3))
    other = finished(tmp_path / "other", config(population=tail, seed=1))
    content = (one.path / "cohort.json").read_bytes()
    assert (two.path / "cohort.json").read_bytes() == content
    assert told(other)["clients"] != told(one)["clients"]
    assert told(one)["population"] == 10**10
    (two.path / "cohort.json").unlink()  # as in a folder of an older version
    (two.path / "summary.json").unlink()
    assert len(run_in_folder(two)) == 3
    assert (two.path / "cohort.json").read_bytes() == content


def test_it_is_written_once(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    (folder.path / "cohort.json").write_text("{}\n")
    run_in_folder(folder)
    assert told(folder) == {}


def test_it_is_there_from_the_start(tmp_path: Path) -> None:
    """Whoever watches a run need not wait for its end, nor for a checkpoint."""
    folder = RunFolder(tmp_path / "run")
    start_run(folder, config(checkpoint_every=0))
    seen = []
    run_in_folder(folder, lambda record: seen.append(told(folder)["of"]))
    assert seen == [50, 50]


@pytest.mark.parametrize("shifting", [None, 1.0])
def test_clients_of_a_domain_are_called_by_it(shifting: float | None) -> None:
    population = {"kind": "domains"} | ({} if shifting is None else {"concept_shift": shifting})
    settings = config(data={"name": "digit-domains"}, population=population)
    found = cohort(build_simulation(settings))
    names = [one["domain"] for one in found["clients"]]
    assert names == ["plain", "inverted", "textured", "blurred", "rendered"]
    data = build_data(settings.data).train
    assert data.domain is not None
    for d, one in enumerate(found["clients"]):  # by the images' own classes
        own = data.y[data.domain == d].numpy()
        assert one["counts"] == np.bincount(own, minlength=10).tolist()


def test_clients_of_many_domains_are_of_none() -> None:
    population = {"kind": "iid", "clients": 4, "cohort": 4}
    settings = config(data={"name": "digit-domains"}, population=population)
    assert all(
        set(c) == {"client", "counts"} for c in cohort(build_simulation(settings))["clients"]
    )


def test_classes_are_called_by_their_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["<b>cat</b>", "\N{DOG FACE}", '"', "x" * 300]
    np.savez(
        tmp_path / "mine.npz",
        x_train=rng.random((40, 1, 8, 8)).astype(np.float32),
        y_train=np.arange(40) % 4,
        x_test=rng.random((8, 1, 8, 8)).astype(np.float32),
        y_test=np.arange(8) % 4,
        class_names=np.array(names),
    )
    data = {"file": str(tmp_path / "mine.npz")}
    population = {"kind": "iid", "clients": 4, "cohort": 2}
    folder = finished(tmp_path / "run", config(data=data, population=population))
    assert told(folder)["class_names"] == names
    assert len(folder.records()[-1]["classes"]) == 4
