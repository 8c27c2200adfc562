"""What is measured: a base case, and one thing at a time; what cannot be is refused before."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedfor.cli_scale import _workers
from fedfor.cli_shared import whole_numbers
from fedfor.errors import ConfigError, FedforError
from fedfor.experiments.load import load_config
from fedfor.experiments.scale_plan import AXES, Case, check_plan

from ..conftest import Cli
from ..report.made_scale import made_plan

pytestmark = pytest.mark.fast


def test_the_base_is_the_largest_population_all_workers_and_else_the_middle() -> None:
    base = made_plan(workers=(1, 2, 4, 8)).base
    assert base == Case(population=10**10, cohort=100, workers=8, model="cnn")
    assert made_plan(cohorts=(10, 20, 30)).base.cohort == 20
    assert made_plan(models=("resnet20", "linear")).base.model == "resnet20"  # in their own order
    assert made_plan(workers=(), engine="serial").base.workers is None


def test_cases_differ_from_the_base_in_one_thing_and_are_each_there_once() -> None:
    plan = made_plan()
    assert plan.cases[0] == plan.base
    assert len(set(plan.cases)) == len(plan.cases) == 1 + 3 + 3 + 2 + 2
    varied = Counter(itertools.chain.from_iterable(c.differs(plan.base) for c in plan.cases))
    assert varied == {"population": 3, "cohort": 3, "workers": 2, "model": 2}
    assert all(len(case.differs(plan.base)) == 1 for case in plan.cases[1:])


def test_an_axis_has_the_base_at_its_place() -> None:
    plan = made_plan()
    assert [case.cohort for case in plan.along("cohort")] == [10, 100, 1_000, 10_000]
    assert [case.workers for case in plan.along("workers")] == [1, 2, 4]
    assert all(plan.base in plan.along(axis) for axis in AXES)
    assert made_plan(workers=(), engine="serial").along("workers") == []


def test_a_case_is_a_run_of_its_own_numbers() -> None:
    plan = made_plan()
    case = Case(population=10**7, cohort=10, workers=2, model="linear")
    config = load_config(plan.config(case))
    assert (config.engine, config.algorithm["name"], config.model.name) == (
        "ray",
        "fedfor",
        "linear",
    )
    of_run = config.population
    assert (of_run.clients, of_run.cohort, of_run.samples_per_client) == (10**7, 10, 20)  # type: ignore[attr-defined]
    assert config.training.batch_size == 10
    assert config.ray is not None
    assert config.ray.workers == 2
    alone = made_plan(workers=(), engine="serial")
    assert "ray" not in alone.config(alone.base)


def test_parameters_of_each_model_are_those_that_are_sent() -> None:
    plan = made_plan(models=("linear", "mlp"))
    mlp = 2 * (64 * 64 + 64) + 64 * 10 + 10
    assert check_plan(plan, room=4) == {"linear": 64 * 10 + 10, "mlp": mlp}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cohorts": (10, 2_000), "populations": (10, 1_000)}, "--cohorts 2000: of 1000 clients"),
        ({"cohorts": (10, 20, 30), "populations": (15, 30)}, "--populations 15: 20 clients"),
        ({"engine": "serial"}, "--workers is for the engine ray, and serial works in one process"),
        ({"engine": "head:10001", "workers": (1, 5)}, "--workers 5: the cluster at head:10001 has"),
        ({"models": ("liner",)}, "did you mean 'linear'"),
        ({"algorithm": "fedfro"}, "did you mean 'fedfor'"),
        ({"algorithm": "fedbn", "models": ("linear",)}, "the model has none"),
        ({"engine": "vectro", "workers": ()}, "did you mean 'vector'"),
    ],
)
def test_what_cannot_be_run_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(FedforError) as refused:
        check_plan(made_plan(**changed), room=4)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_can_just_be_run_is_not_refused() -> None:
    small = {"models": ("linear",)}
    check_plan(made_plan(cohorts=(10, 20, 30), populations=(20, 30), **small), room=4)
    check_plan(made_plan(engine="head:10001", workers=(1, 4), **small), room=4)
    check_plan(made_plan(workers=(1, 5), **small), room=4)  # here, they share the cores


@pytest.mark.parametrize("axis", ["populations", "cohorts", "models"])
def test_a_plan_has_something_on_each_axis(axis: str) -> None:
    with pytest.raises(ValueError, match=axis):
        made_plan(**{axis: ()})


def test_workers_are_powers_of_two_and_all_that_there_is_room_for() -> None:
    assert _workers("ray", None, 1) == (1,)
    assert _workers("ray", None, 2) == (1, 2)
    assert _workers("ray://head:10001", None, 12) == (1, 2, 4, 8, 12)
    assert _workers("ray", "4,1,4", 12) == (1, 4)
    assert _workers("serial", None, 12) == ()


def test_a_cluster_without_cpus_is_told() -> None:
    with pytest.raises(ConfigError, match="the cluster at head:10001 has no CPU for a worker"):
        _workers("head:10001", None, 0)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10000", 10**4),
        ("10_000", 10**4),
        ("1e10", 10**10),
        ("1E3", 10**3),
        ("3e5", 300_000),
        ("10**10", 10**10),
        ("2**20", 2**20),
        (" 7 ", 7),
        ("1e18", 10**18),
    ],
)
def test_numbers_as_people_write_them(text: str, number: int) -> None:
    assert whole_numbers("--cohorts", text) == [number]
    assert whole_numbers("--cohorts", f"1,{text},") == [1, number]


@pytest.mark.parametrize(
    "text",
    ["", ",", "0", "0e5", "-1", "+1", "1.5", "1.5e3", "1e-3", "ten", "1 2", "1__0", "_1", "1_",
     "1e", "10**", "**2", "2**3**4", "1e19", "10**19", "9" * 19, "9" * 5000, "9**99", "٣", "10,ten",
     "nan", "inf", "0x10"],
)  # fmt: skip
def test_what_is_no_such_number_is_refused(text: str) -> None:
    with pytest.raises(FedforError, match=r"--cohorts .*: write whole numbers from 1 to 1e18"):
        whole_numbers("--cohorts", text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cohorts ten", "--cohorts ten: write whole numbers"),
        ("--populations ,", "--populations ,: write whole numbers"),
        ("--workers 0 --engine ray", "--workers 0: write whole numbers"),
        ("--models ,", "--models ,: name some, with commas between"),
        ("--models linear,net", "'net' is not known"),
        ("--workers 2", "--workers is for the engine ray"),
        ("--cohorts 200", "--cohorts 200: of 100 clients"),
        ("--engine vectro", "did you mean 'vector'"),
        ("--engine 127.0.0.1:1", "nobody answers at 127.0.0.1:1"),
        ("--page tabel", "did you mean 'table'"),
        ("--page table", "--page says what --from prints"),
        ("--from there --page table --out o", "--page says what --from prints"),
        ("--from there", "there holds no results of 'fedfor scale' (No such file"),
    ],
)
def test_the_command_refuses_in_one_sentence_and_writes_nothing(
    fedfor: Cli, words: str, told: str
) -> None:
    small = "scale --engine serial --populations 100 --cohorts 2 --models linear"
    code, out, err = fedfor(*small.split(), *words.split())
    assert (code, out) == (2, "")
    assert told in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not any(Path().iterdir())
