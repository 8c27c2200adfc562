"""What `fedfor scale` measures: a base case, and cases that differ from it along one axis."""

from typing import Any

from pydantic import Field

from ..data import digits
from ..engines.names import RAY, is_ray
from ..errors import ConfigError
from ..models import build_model
from ..protocol import Server
from .build import check_model
from .config import RunConfig, Section
from .load import load_config

AXES = ("population", "cohort", "workers", "model")

MANY = 10**6
"""Rounds of a run that is cut off once enough are counted, before the last, which is tested."""


class Case(Section):
    """One run: so many clients, of which so many are called a round, on so many workers."""

    population: int
    cohort: int
    workers: int | None
    """None: the engine has none."""
    model: str

    def differs(self, other: "Case") -> list[str]:
        """The axes along which two cases are not the same."""
        return [axis for axis in AXES if getattr(self, axis) != getattr(other, axis)]


class Plan(Section):
    """The values of each axis, and what is the same in all cases."""

    populations: tuple[int, ...] = Field(min_length=1)
    cohorts: tuple[int, ...] = Field(min_length=1)
    workers: tuple[int, ...]
    """Empty for an engine that has none."""
    models: tuple[str, ...] = Field(min_length=1)
    algorithm: str
    engine: str
    rounds: int = Field(ge=1)
    """Those that are counted."""
    samples: int = Field(ge=1)
    """Of each client."""
    batch: int = Field(ge=1)

    @property
    def base(self) -> Case:
        """The largest population and all workers; of cohorts and models the one in the middle."""
        return Case(
            population=max(self.populations),
            cohort=_middle(self.cohorts),
            workers=max(self.workers, default=None),
            model=_middle(self.models),
        )

    def along(self, axis: str) -> list[Case]:
        """The cases that differ in this axis alone, the base among them."""
        values = {
            "population": self.populations,
            "cohort": self.cohorts,
            "workers": self.workers,
            "model": self.models,
        }
        return [self.base.model_copy(update={axis: value}) for value in values[axis]]

    @property
    def cases(self) -> list[Case]:
        """All of them, each once, the base first."""
        every = [self.base, *(case for axis in AXES for case in self.along(axis))]
        return list(dict.fromkeys(every))

    def config(self, case: Case) -> dict[str, Any]:
        """The settings of a case's run."""
        population = {"kind": "iid", "clients": case.population, "cohort": case.cohort}
        workers = {} if case.workers is None else {"ray": {"workers": case.workers}}
        return {
            "rounds": MANY,
            "engine": self.engine,
            "checkpoint_every": 0,
            "algorithm": {"name": self.algorithm},
            "population": {**population, "samples_per_client": self.samples},
            "model": {"name": case.model},
            "training": {"batch_size": self.batch},
            "evaluation": {"every": MANY},
            **workers,
        }


def check_plan(plan: Plan, room: int) -> dict[str, int]:
    """Refuse what cannot be run before anything is; tells how many parameters each model sends.

    `room` is how many workers there is room for.
    """
    _config(plan, plan.base)
    _check_workers(plan, room)
    _check_sizes(plan)
    return {name: _parameters(plan, name) for name in plan.models}


def _check_workers(plan: Plan, room: int) -> None:
    most = max(plan.workers, default=0)
    if most and not is_ray(plan.engine):
        raise ConfigError(
            f"--workers is for the engine ray, and {plan.engine} works in one process; "
            "leave it out, or name --engine ray"
        )
    if most > room and plan.engine != RAY:
        raise ConfigError(f"--workers {most}: the cluster at {plan.engine} has room for {room}")


def _check_sizes(plan: Plan) -> None:
    base, fewest, most = plan.base, min(plan.populations), max(plan.cohorts)
    if most > base.population:
        raise ConfigError(
            f"--cohorts {most}: of {base.population} clients, the largest of --populations, no "
            "more than all can be called"
        )
    if fewest < base.cohort:
        raise ConfigError(
            f"--populations {fewest}: {base.cohort} clients, the middle one of --cohorts, are "
            "called a round, so there must be as many"
        )


def _parameters(plan: Plan, name: str) -> int:
    algorithm = _config(plan, plan.base.model_copy(update={"model": name})).build_algorithm()
    split = digits()
    model = build_model(name, split.train.x.shape[1:], split.train.classes)
    check_model(model, algorithm, split)
    return sum(p.numel() for p in Server(algorithm, model, population=1).params.values())


def _config(plan: Plan, case: Case) -> RunConfig:
    return load_config(plan.config(case), source="scale")


def _middle(values: tuple[Any, ...]) -> Any:
    return values[(len(values) - 1) // 2]
