from pathlib import Path

import pytest

from fedfor.errors import ConfigError
from fedfor.paper.numbers import tables
from fedfor.paper.reproduce import bundles
from fedfor.paper.study import Study, labels, load_study, study_names

NAMES = [
    "prior-shift",
    "digits",
    "domainnet",
    "office-caltech",
    "concept-shift",
    "alpha-sweep",
    "communication",
    "statefulness",
]


def test_all_of_the_papers_experiments_are_there() -> None:
    assert set(NAMES) <= set(study_names())


@pytest.mark.parametrize("name", study_names())
def test_every_run_of_a_study_can_be_planned(name: str) -> None:
    study = load_study(name)
    cells = study.cells(Path("runs"), study.seeds, [])
    assert len(cells) == len(study.points) * len(study.rows) * len(study.seeds)
    assert len({cell.folder.path for cell in cells}) == len(cells)
    assert sum(map(len, bundles(cells))) == len(cells)
    for cell in cells:
        point = next(p for p in study.points if p.name == cell.point)
        assert (cell.config.training.epochs, cell.config.rounds) == (point.epochs, point.rounds)


@pytest.mark.parametrize("name", [n for n in study_names() if load_study(n).table])
def test_rows_and_points_are_those_of_the_papers_table(name: str) -> None:
    study = load_study(name)
    assert study.table is not None
    table = tables()[study.table]
    named = {row.paper for row in study.rows} - {None}
    assert named <= set(table["methods"])
    if name not in ("prior-shift-readings",):
        assert named == set(table["methods"])
    first = next(iter(table["methods"].values()))
    for point in study.points:
        cell = next(c for c in first if c["local_epochs"] == point.epochs)
        if point.half is not None:
            assert (point.half, point.rounds) == (cell["half"]["round"], cell["final"]["round"])
    if table.get("target"):
        assert study.config["evaluation"]["target"] == table["target"] / 100


def test_settings_of_the_papers_appendix() -> None:
    (prior, *_), (digits, *_), (domains, *_) = (
        load_study(n).cells(Path("x"), [0], []) for n in ("prior-shift", "digits", "domainnet")
    )
    for cell, batch in ((prior, 128), (digits, 32), (domains, 32)):
        training = cell.config.training
        assert (training.batch_size, training.lr, training.lr_decay) == (batch, 0.01, 1.0)
        assert (training.optimizer, training.options) == ("sgd", {})
    assert prior.config.model.name == "resnet20"
    assert prior.config.population.model_dump()["share"] == 0.1
    assert prior.config.population.model_dump()["ratio"] == 0.01
    assert digits.config.model.name == "digits-net"
    assert domains.config.model.name == "alexnet-bn"
    assert domains.config.training.augment == ["flip", "rotate=30"]


def test_concepts_shift_alike_for_every_method() -> None:
    study = load_study("concept-shift")
    cells = study.cells(Path("x"), [3], [])
    assert {c.config.population.concept_shift for c in cells} == {0.05}
    assert {c.config.rounds for c in cells} == {200}
    assert {c.config.seed for c in cells} == {3}  # what the sequence is drawn from


def test_choosing_epochs_and_algorithms() -> None:
    study = load_study("prior-shift").with_epochs([2, 8])
    assert [point.name for point in study.points] == ["E=2", "E=8"]
    chosen = study.with_algorithms(["fedavg,fedfor-paper", "fedfor,alpha=2,clip=false"])
    assert [row.name for row in chosen.rows] == [
        "FedAvg",
        "FedFOR, published",
        "fedfor,alpha=2,clip=false",
    ]
    with pytest.raises(ConfigError, match=r"--epochs 3: prior-shift has 2, 8"):
        study.with_epochs([3])


def test_a_list_of_algorithms() -> None:
    assert labels("fedavg,fedprox,mu=0.1,fedfor") == ["fedavg", "fedprox,mu=0.1", "fedfor"]


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"no study 'prior-shfit'; did you mean 'prior-shift'"):
        load_study("prior-shfit")


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("title = 'x'\npoints = []\nrows = []\nconfig = {}\n")
    with pytest.raises(ConfigError, match="points"):
        load_study(str(path))
    path.write_text("title = ")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_study(str(path))


def test_all_of_a_seed_are_trained_together() -> None:
    """So that one compiled program serves every seed and every number of epochs."""
    study = load_study("alpha-sweep")
    cells = study.cells(Path("x"), [100, 101], [])
    found = bundles(cells)
    assert all(len({c.config.training.epochs for c in bundle}) == 1 for bundle in found)
    assert {len(bundle) for bundle in found} == {len(study.rows)}
    few: Study = study.with_algorithms(["fedavg", "step 5"])
    assert {len(b) for b in bundles(few.cells(Path("x"), [100, 101], []))} == {4}
