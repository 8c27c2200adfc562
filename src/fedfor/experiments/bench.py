"""How fast the engines train here: images and clients a second, measured."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch

from ..algorithms import algorithm
from ..data import DataSplit, IidDraws, LabelledData
from ..engines import SerialEngine, Training
from ..engines.choose import make_engine
from ..engines.stacking import Stacking
from ..engines.vector import VectorEngine
from ..errors import ConfigError, FedforError, in_short, nearest
from ..models import MODELS, build_model
from ..randomness import torch_seeded
from .build import build_device, check_model
from .simulation import Simulation

SHAPES = {"linear": (1, 28, 28), "mlp": (1, 28, 28), "cnn": (1, 28, 28), "cnn-bn": (1, 28, 28)}
COLOUR = (3, 32, 32)

UNCOMPILED = Stacking(compile="never")

ENGINES = ("serial", "vector", "auto")


@dataclass(frozen=True)
class Measured:
    """One engine on one model with one size of cohort. Speeds are None where it failed."""

    engine: str
    model: str
    cohort: int
    images_a_second: float | None
    clients_a_second: float | None
    seconds_before: float
    """Before the first timed round: what compiling, capturing and warming up took."""
    together: int | None = None
    """The most clients in one stack; None for one after another."""
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bench:
    """The work that is timed: rounds of `name`, on data made up for the purpose."""

    name: str = "fedfor"
    samples: int = 64
    batch: int = 16
    seconds: float = 2.0
    """How long each case is timed, at the least: 3 rounds in any case."""
    device: str = "cpu"
    stacking: Stacking = UNCOMPILED
    threads: int = 1

    def measure(
        self, engines: Sequence[str], models: Sequence[str], cohorts: Sequence[int]
    ) -> Iterator[Measured]:
        """Each case in turn, as soon as it is done."""
        for what, known, given in (("engine", ENGINES, engines), ("model", tuple(MODELS), models)):
            if not given:
                raise ConfigError(f"bench: name at least one {what}")
            for name in given:
                if name not in known and (what == "engine" or ":" not in name):
                    raise ConfigError(f"bench: '{name}' is not known; {nearest(name, known)}")
        torch.set_num_threads(self.threads)
        for model in models:
            self._simulation("serial", model, 1)  # a mistake is told before anything is timed
        for model in models:
            for cohort in cohorts:
                for engine in engines:
                    yield self._case(engine, model, cohort)

    def _case(self, engine: str, model: str, cohort: int) -> Measured:
        began = time.perf_counter()
        try:
            simulation = self._simulation(engine, model, cohort)
            for _ in range(3):  # the first rounds trace, compile and capture
                simulation.round(evaluate=False)
            before, times = time.perf_counter() - began, list[float]()
            while len(times) < 3 or sum(times) < self.seconds:
                self._synchronise()
                start = time.perf_counter()
                simulation.round(evaluate=False)
                self._synchronise()
                times.append(time.perf_counter() - start)
        except (FedforError, RuntimeError) as error:  # such as memory that runs out
            reason = str(error) if isinstance(error, FedforError) else in_short(error)
            return Measured(engine, model, cohort, None, None, 0.0, problem=reason)
        a_round = statistics.median(times)
        return Measured(
            engine,
            model,
            cohort,
            cohort * self.samples / a_round,
            cohort / a_round,
            before,
            cast("int | None", simulation.engine.about.get("together")),
        )

    def _simulation(self, engine: str, name: str, cohort: int) -> Simulation:
        shape = SHAPES.get(name, COLOUR)
        draw = torch.Generator().manual_seed(0)
        y = torch.arange(2000) % 10
        data = LabelledData("made up", torch.randn(2000, *shape, generator=draw), y, 10)
        with torch_seeded(0, "init"):
            model = build_model(name, shape, 10)
        chosen, training = algorithm(self.name), Training(batch_size=self.batch)
        check_model(model, chosen, DataSplit(data, data))
        what = (model, chosen, training, 0)
        device = build_device(self.device)
        worker: SerialEngine | VectorEngine
        if engine == "auto":
            few = (data.x[:4], data.y[:4])
            worker = make_engine(
                "auto", *what, device=device, stacking=self.stacking, cohort=cohort, sample=few
            )
        elif engine == "serial":
            worker = SerialEngine(*what, device=device)
        else:
            worker = VectorEngine(*what, device=device, stacking=self.stacking)
        population = IidDraws(DataSplit(data, data), max(10**6, cohort), 0, self.samples)
        return Simulation(population, model, chosen, training, worker, cohort=cohort, seed=0)

    def _synchronise(self) -> None:
        if torch.cuda.is_available() and self.device != "cpu":
            torch.cuda.synchronize()
