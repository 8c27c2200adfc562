import re
from pathlib import Path

import pytest

from fedfor.errors import ConfigError
from fedfor.paper.numbers import tables
from fedfor.paper.reproduce import bundles
from fedfor.paper.study import Study, labels, load_study, study_names

from .made import MINI

pytestmark = pytest.mark.fast

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
    cells = study.cells(Path("runs"))
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
        load_study(n).cells(Path("x")) for n in ("prior-shift", "digits", "domainnet")
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
    cells = study.with_seeds([3]).cells(Path("x"))
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


def test_rows_by_a_name_with_a_comma() -> None:
    study = load_study("prior-shift").with_algorithms(["FedFOR, published", "fedprox"])
    assert [row.name for row in study.rows] == ["FedFOR, published", "FedProx"]


def test_epochs_of_a_study_that_does_not_vary_them() -> None:
    study = load_study("communication")
    (one, two) = study.with_epochs([2]).points
    assert (one.name, one.epochs, two.epochs) == ("cross-device", 2, 2)
    names = [point.name for point in study.with_epochs([1, 16]).points]
    assert names == ["cross-device, E=1", "cross-silo, E=1", "cross-device, E=16",
                     "cross-silo, E=16"]  # fmt: skip


def test_settings_go_before_what_the_study_says() -> None:
    study = load_study("digits").with_settings(["rounds=20", "evaluation.target=0.5"])
    cells = study.with_epochs([1, 16]).cells(Path("x"))
    assert {cell.config.rounds for cell in cells} == {20}
    assert {cell.config.half for cell in cells} == {10, 15}  # 15 is within 20, 50 is not
    assert study.config["evaluation"]["target"] == 0.5
    assert study.changed == ("rounds=20", "evaluation.target=0.5")
    states = load_study("statefulness").with_settings(["population.clients=7"])
    found = {cell.config.population.model_dump()["clients"] for cell in states.cells(Path("x"))}
    assert found == {7}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("training.epochs=3", "use --epochs"),
        ("seed=3", "use --seeds"),
        ("algorithm.alpha=3", "use -a"),
        ("rounds=many", "it must be a whole number above 0"),
        ("rounds", "write it as section.key=value"),
    ],
)
def test_settings_that_a_study_does_not_take(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_study("prior-shift").with_settings([setting])


@pytest.mark.parametrize("seeds", [0, -1, 1001, [0, 0], []])
def test_seeds_that_are_none(seeds: int | list[int]) -> None:
    with pytest.raises(ConfigError, match="seeds"):
        load_study("prior-shift").with_seeds(seeds)


def test_the_same_row_twice() -> None:
    with pytest.raises(ConfigError, match="'FedAvg' is there twice"):
        load_study("prior-shift").with_algorithms(["fedavg,fedavg"])
    with pytest.raises(ConfigError, match="name at least one"):
        load_study("prior-shift").with_algorithms([""])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"E=2"', '"E=1"', "'E=1' is there twice"),
        ('name = "E=1"', 'name = "E |"', None),
        ('"E=2", epochs', '".." , epochs', "a name needs letters or numbers"),
        ('algorithm = "fedavg"', 'algorithm = ""', "a name needs letters or numbers"),
        ('algorithm = "fedavg"', 'algorithm = "fedfor-paper"', "is there twice"),
        ('"prior_shift_cifar10"', '"nosuch"', "the paper has no 'nosuch'"),
        ('paper = "FedFOR"', 'paper = "FedFOUR"', "the paper's table has no 'FedFOUR'"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "seeds: '1' is there twice"),
        ("seeds = [0, 1]", "seeds = []", "seeds"),
        ("seeds = [0, 1]", "metrics = ['bset']", "there is no 'bset'; did you mean 'best'"),
        ("seeds = [0, 1]", "figure = 'chances'", "'E=1' must end in a number"),
        ("seeds = [0, 1]", "seed = 3", "Extra inputs"),
        ("points = [", "points = ]", "is not valid TOML"),
    ],
)
def test_a_study_of_ones_own(old: str, new: str, sentence: str | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert old in MINI
    path.write_text(MINI.replace(old, new, 1))
    if sentence is None:
        load_study(str(path))
        return
    with pytest.raises(ConfigError, match=re.escape(sentence)) as told:
        load_study(str(path))
    assert "\n" not in str(told.value)


def test_points_whose_folders_would_be_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINI.replace('"E=1"', '"E 1|"', 1).replace('"E=2"', '"E 1 "', 1))
    with pytest.raises(ConfigError, match="the folders of points: 'E_1_' is there twice"):
        load_study(str(path))


def test_a_study_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is no text in UTF-8"):
        load_study(str(path))


def test_a_row_without_the_backbone_that_all_others_have_is_told() -> None:
    digits, other = load_study("digits"), load_study("prior-shift")
    rows = digits.with_algorithms(["fedfor,alpha=2", "fedfor+fedbn,alpha=2", "FedProx"]).rows
    [sentence] = digits.lacking_backbone(rows)
    assert sentence.endswith("for that, -a fedfor+fedbn,alpha=2")
    assert not other.lacking_backbone(other.with_algorithms(["fedfor,alpha=2"]).rows)


def test_all_of_a_seed_are_trained_together() -> None:
    """So that one compiled program serves every seed and every number of epochs."""
    study = load_study("alpha-sweep")
    cells = study.cells(Path("x"))
    found = bundles(cells)
    assert all(len({c.config.training.epochs for c in bundle}) == 1 for bundle in found)
    assert {len(bundle) for bundle in found} == {2 * len(study.rows)}  # 80 clients, of two seeds
    tuning: Study = load_study("prior-shift-tuning").with_seeds(2)
    assert {len(b) for b in bundles(tuning.cells(Path("x")))} == {len(tuning.rows)}  # 65 of each


def test_rows_with_settings_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    few = '{ name = "Few", algorithm = "fedavg", set = ["population.cohort=2"] },'
    path.write_text(MINI.replace("rows = [", f"rows = [{few}"))
    study = load_study(str(path))
    cohorts = {(c.label, c.config.population.cohort) for c in study.cells(tmp_path)}
    assert cohorts == {("Few", 2), ("FedAvg", 3), ("FedFOR, published", 3)}
    folders = {c.folder.path.parent.name for c in study.cells(tmp_path)}
    assert folders == {"fedavg,population.cohort=2", "fedavg", "fedfor-paper"}
    for changed in ("population.cohort=5", "population={kind='iid'}"):
        with pytest.raises(ConfigError, match=r"'Few' has population\.cohort=2 of its own"):
            study.with_settings([changed])
    others = study.with_algorithms(["fedfor-paper"]).with_settings(["population.cohort=5"])
    assert {c.config.population.cohort for c in others.cells(tmp_path)} == {5}
    chosen = study.with_algorithms(["fedavg"]).rows
    assert [row.name for row in chosen] == ["FedAvg"]  # by its name
    both = load_study("prior-shift-readings").with_algorithms(["fedavg"]).rows
    assert len(both) == 9  # by the algorithm, all of them


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("seed=7", "'seed' cannot be another for one row"),
        ("rounds=1", "'rounds' cannot be"),
        ("evaluation.half=1", "'evaluation.half' cannot be"),
        ("training.epochs=5", "'training.epochs' cannot be"),
        ("training={epochs=5}", "'training' cannot be"),
        ("algorithm.name=fedprox", "'algorithm.name' cannot be"),
        ("device=cuda", "'device' cannot be"),
        ("", "'' is not written as section.key=value"),
    ],
)
def test_what_all_rows_have_in_common(setting: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    row = f'{{ name = "Odd", algorithm = "fedprox", set = ["{setting}"] }},'
    path.write_text(MINI.replace("rows = [", f"rows = [{row}"))
    with pytest.raises(ConfigError, match=re.escape(words)):
        load_study(str(path))
