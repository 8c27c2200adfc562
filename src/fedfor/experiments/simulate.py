"""A simulation in a few lines of Python, without a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..algorithms import Algorithm, ClientOpt
from ..algorithms.presets import as_algorithm
from ..data import Availability, Population
from ..engines import Engine, Training
from ..engines.augment import require_images
from ..engines.choose import make_engine
from ..engines.clustered import Clustered, make_ray_engine
from ..engines.fisher import Loss
from ..engines.names import EngineName, is_ray
from ..engines.stacking import Compile, Precision, Stacking
from ..errors import ConfigError, require_whole
from ..models import build_model
from ..protocol.local import load_tensors
from ..randomness import torch_seeded
from .build import build_device, check_model
from .metrics import best_accuracy, mean_accuracy, rounds_to
from .simulation import Record, Simulation
from .store import MemoryStore, Store


@dataclass(frozen=True)
class History:
    """What came of a simulation: a record for each round, and the model after the last.

    Under FedBN the model's batch-norm layers are the initial ones: clients keep theirs.
    """

    records: list[Record]
    model: nn.Module

    @property
    def accuracies(self) -> list[float]:
        return [r["accuracy"] for r in self.records if "accuracy" in r]

    @property
    def best(self) -> float | None:
        return best_accuracy(self.records, len(self.records))

    @property
    def mean(self) -> float | None:
        return mean_accuracy(self.records)

    def rounds_to(self, target: float) -> int | None:
        return rounds_to(self.records, target)


def simulate(
    algorithm: Algorithm | ClientOpt | str,
    population: Population,
    model: nn.Module | str = "cnn",
    *,
    rounds: int,
    cohort: int | None = None,
    seed: int = 0,
    training: Training | None = None,
    loss: Loss = nn.functional.cross_entropy,
    device: str | torch.device = "cpu",
    engine: EngineName = "auto",
    precision: Precision = "fp32",
    lanes: int | None = None,
    compile: Compile = "auto",  # noqa: A002
    evaluate_every: int = 1,
    store: Store | None = None,
    availability: Availability | None = None,
    workers: int | None = None,
    on_round: Callable[[Record], None] = lambda record: None,
    **training_options: Any,
) -> History:
    """Federated training of `model` over `population`.

    `training_options` are those of `Training`: epochs, batch_size, lr, optimizer, ... The model is
    trained in place. Ten clients are called in each round, or all if there are fewer. `engine` is
    auto, serial, vector, ray or the address of a Ray cluster; `precision` (fp32, tf32, bf16),
    `lanes`, the most clients trained at once, and `compile` (auto, always, never) are the vector
    engine's, `workers` the ray engine's. `availability` says who is away, drops out or is slow.
    """
    for name, count in (("rounds", rounds), ("evaluate_every", evaluate_every)):
        require_whole("simulate", name, count)
    if training is not None and training_options:
        raise ConfigError(f"simulate: give {sorted(training_options)[0]} to Training, or alone")
    cohort = min(10, population.size) if cohort is None else cohort
    chosen = as_algorithm(algorithm)
    how = training or Training(**training_options)
    if isinstance(model, str):
        train = population.train
        with torch_seeded(seed, "init"):
            model = build_model(model, train.x.shape[1:], train.classes)
    check_model(model, chosen, population.split)
    require_images(how.augmentation, population.train.x.shape[1:])
    stacking = Stacking(precision, lanes, compile, rounds)
    store = MemoryStore() if store is None else store
    worker: Engine
    if is_ray(engine):
        worker = make_ray_engine(
            Clustered(engine, workers),
            population,
            model,
            chosen,
            how,
            seed,
            store,
            loss,
            device=str(device),
            stacking=stacking,
            cohort=cohort,
        )
    else:
        worker = make_engine(
            engine,
            model,
            chosen,
            how,
            seed,
            loss,
            build_device(str(device)),
            stacking=stacking,
            cohort=cohort,
            sample=(population.train.x[:4], population.train.y[:4]),
        )
    simulation = Simulation(
        population,
        model,
        chosen,
        how,
        worker,
        cohort=cohort,
        seed=seed,
        store=store,
        availability=availability,
    )
    records = []
    try:
        for t in range(1, rounds + 1):
            records.append(simulation.round(evaluate=t == rounds or t % evaluate_every == 0))
            on_round(records[-1])
    finally:
        worker.close()
    load_tensors(model, {**worker.initial_own, **simulation.server.model})
    return History(records, model)
