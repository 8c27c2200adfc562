import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import tomli_w
from torch import Tensor

from fedfor.algorithms import PRESETS, Named, Scalar, ServerOpt
from fedfor.errors import ConfigError, DataError
from fedfor.experiments.build import build_simulation
from fedfor.experiments.config import LongTailConfig, RunConfig
from fedfor.experiments.folder import _plain
from fedfor.experiments.load import bundled_configs, load_config, parse_value, read_toml

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", bundled_configs())
def test_bundled_configs_build(name: str) -> None:
    simulation = build_simulation(load_config(read_toml(name)))
    assert simulation.caller.cohort <= simulation.population.size


@dataclass(frozen=True)
class HalfWay(ServerOpt):
    name: ClassVar[str] = "half-way"

    part: float = 0.5

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return w + self.part * (proposal - w), {}


OWN_SERVER = "tests.experiments.test_config:HalfWay"


def test_a_server_opt_of_ones_own() -> None:
    for table in (
        {"name": f"fedfor+{OWN_SERVER}", "server": {"part": 0.25}},
        {"name": "fedfor", "server": {"name": OWN_SERVER, "part": 0.25}},
    ):
        config = load_config({**read_toml("prior-shift"), "algorithm": table})
        assert config.build_algorithm().server == HalfWay(part=0.25)
        again = load_config(tomllib.loads(tomli_w.dumps(_plain(config))))
        assert again == config
        assert build_simulation(again).round()["round"] == 1


@pytest.mark.parametrize("name", [*PRESETS, "fedfor+fedadam+fedbn"])
def test_a_config_survives_its_file(name: str) -> None:
    config = load_config({"algorithm": name})
    text = tomli_w.dumps(_plain(config))
    assert load_config(tomllib.loads(text)) == config
    assert load_config(tomllib.loads(text)).build_algorithm() == config.build_algorithm()


def test_the_resolved_config_spells_everything_out() -> None:
    config = load_config({"algorithm": {"name": "fedfor", "alpha": 3}})
    assert config.algorithm == {
        "name": "fedfor",
        "alpha": 3,
        "strength": "step",
        "clip": True,
        "send": "float32",
        "server": {"name": "average", "lr": 1.0},
        "sharing": "everything",
        "weighting": "uniform",
    }


def test_a_head_takes_the_place_of_the_share() -> None:
    for assignments, sizes in (([], (0.1, None)), (["share=0.3"], (0.3, None))):
        p = load_config({}, [f"population.{a}" for a in assignments]).population
        assert isinstance(p, LongTailConfig)
        assert (p.share, p.head) == sizes
    config = load_config({}, ["population.share=0.3", "population.head=50"])
    assert config.population.model_dump()["head"] == 50
    assert config.population.model_dump()["share"] is None
    assert RunConfig.model_validate(config.model_dump(exclude_none=True)) == config


def test_assignments() -> None:
    config = load_config(
        {"algorithm": "fedavgm"},
        [
            "algorithm.server.momentum=0.5",
            "training.lr = 0.25",
            "training.options.momentum=0.9",
            "population.kind=shards",
            "population.clients=7",
            "population.cohort=3",
            "rounds=9",
            "model.name=mlp",
        ],
    )
    assert config.algorithm["server"] == {"name": "fedavgm", "momentum": 0.5, "lr": 1.0}
    assert config.training.options == {"momentum": 0.9}
    assert (config.training.lr, config.rounds, config.model.name) == (0.25, 9, "mlp")


def test_values_are_toml_or_text() -> None:
    assert [parse_value(v) for v in ("3", "0.5", "true", "[1, 2]", "fedfor", "'a b'", "1_000")] == [
        3,
        0.5,
        True,
        [1, 2],
        "fedfor",
        "a b",
        1000,
    ]


@pytest.mark.parametrize(
    ("tables", "assignments", "words"),
    [
        ({}, ["algorithm.name=fedfro"], "did you mean 'fedfor'"),
        ({}, ["algorithm.alpha=-3"], "alpha must be 0 or more (got -3)"),
        ({}, ["training.lr=-1"], "training.lr: input should be greater than 0 (got -1)"),
        ({}, ["training.epoch=3"], "training.epoch: no such setting; did you mean 'epochs'"),
        ({}, ["trainig.lr=1"], "trainig: no such setting; did you mean 'training'"),
        ({}, ["population.alpha=1"], "population.alpha: no such setting"),
        ({}, ["population.kind=dirchlet"], "did you mean 'dirichlet'"),
        (
            {"population": {"kind": "shards", "shard_per_client": 3}},
            [],
            "population.shard_per_client: no such setting; did you mean 'shards_per_client'",
        ),
        ({}, ["rounds=ten"], "rounds: input should be a valid integer"),
        ({}, ["rounds"], "write it as section.key=value"),
        ({}, ["rounds.x=1"], "rounds"),
        ({"rounds": 3}, ["rounds.x=1"], "'rounds' is a value, not a table"),
        ({}, ["data.name=mnits"], "there are no data of that name; did you mean 'mnist'"),
        ({}, ["data.name=file"], "goes with data.file"),
        ({}, ["evaluation.target=90"], "less than or equal to 1"),
        ({"algorithm": 3}, [], "must be a name or a table with a name"),
        ({"population": 4}, [], "population"),
        ({"rounds": 5, "evaluation": {"half": 6}}, [], "half cannot be after the last of 5 rounds"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    tables: dict[str, object], assignments: list[str], words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(tables, assignments, source="my.toml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'prior-shift'"):
        read_toml("prior-shit")
    broken = tmp_path / "broken.toml"
    broken.write_text("rounds = = 3\n")
    with pytest.raises(ConfigError, match=r"is not valid TOML: .*line 1"):
        read_toml(str(broken))
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read the config"):
        read_toml(str(broken))
    with pytest.raises(ConfigError, match="cannot read the config"):
        read_toml(str(tmp_path))


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["population.clients=5"], "cohort is 10 but the population has 5 clients"),
        (["algorithm.name=fedbn"], "the model has none; use one that has"),
        (["device=gpu"], "device 'gpu' cannot be used here"),
        (["population.share=0.001"], "has no data; raise population.share"),
        (["model.name=tests.experiments.test_config:too_few"], "outputs of shape (2, 3)"),
        (["model.name=tests.experiments.test_config:misfit"], "cannot take samples of shape"),
    ],
)
def test_what_only_building_shows(assignments: list[str], words: str) -> None:
    config = load_config(read_toml("prior-shift"), assignments)
    with pytest.raises((ConfigError, DataError)) as error:
        build_simulation(config)
    assert words in str(error.value)


def too_few(shape: object, classes: int) -> object:
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def misfit(shape: object, classes: int) -> object:
    from torch import nn

    return nn.Linear(5, classes)


def test_half_way() -> None:
    assert RunConfig(rounds=25).half == 12
    assert load_config({"rounds": 25, "evaluation": {"half": 15}}).half == 15
    assert RunConfig(rounds=1).half == 1


def test_the_demo_takes_the_winners_of_the_tuning() -> None:
    """Every method was tuned on a grid of the same size; the demo's settings are what won."""
    tuning = json.loads((ROOT / "results/demo-tuning.json").read_text())
    algorithms = read_toml("demo")["compare"]["algorithms"]

    def normal(label: str) -> str:
        return label.replace(".0,", ",")

    assert [normal(a) for a in algorithms] == [normal(w) for w in tuning["winners"].values()]
    sizes = Counter(label.split(",")[0] for label in tuning["grid"])
    assert len(set(sizes.values())) == 1
    assert not set(tuning["seeds"]) & set(range(read_toml("demo")["compare"]["seeds"]))
    for method, winner in tuning["winners"].items():
        means = {k: v or 0 for k, v in tuning["grid"].items() if k.startswith(f"{method},")}
        assert winner == max(means, key=means.__getitem__)
