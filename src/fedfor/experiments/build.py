"""From a config to the things it names."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..algorithms import Algorithm
from ..algorithms.sharing import stays_local
from ..data import (
    Availability,
    ConceptShift,
    DataSplit,
    DirichletDraws,
    IidDraws,
    LongTail,
    Population,
    by_domain,
    digit_domains,
    digits,
    dirichlet_split,
    iid_split,
    load_npz,
    official,
    shards,
)
from ..engines import Engine, Training
from ..engines.augment import require_images
from ..engines.choose import make_engine
from ..engines.clustered import Clustered, make_ray_engine
from ..engines.forward import forward
from ..engines.names import is_ray
from ..engines.stacking import Stacking
from ..errors import ConfigError
from ..models import build_model
from ..randomness import torch_seeded
from .config import (
    BUNDLED,
    DataConfig,
    DirichletConfig,
    DomainsConfig,
    IidConfig,
    LongTailConfig,
    RayConfig,
    RunConfig,
    ShardsConfig,
)
from .simulation import Simulation
from .store import MemoryStore, Store

if TYPE_CHECKING:
    from ..engines.ray.pool import Pool
    from ..engines.vector import Trainer


def build_data(config: DataConfig) -> DataSplit:
    if config.file is not None:
        return load_npz(config.file)
    if config.name in BUNDLED:
        return digits() if config.name == "digits" else digit_domains()
    return official.load(config.name, config.per_domain)


def build_population(config: RunConfig, split: DataSplit) -> Population:
    p, seed = config.population, config.seed
    population: Population
    match p:
        case LongTailConfig():
            population = LongTail(split, p.clients, seed, p.share, p.ratio, p.head)
        case DirichletConfig(samples_per_client=None):
            population = dirichlet_split(split, p.clients, seed, p.alpha, p.min_samples)
        case DirichletConfig(samples_per_client=int(n)):
            population = DirichletDraws(split, p.clients, seed, p.alpha, n)
        case ShardsConfig():
            population = shards(split, p.clients, seed, p.shards_per_client)
        case IidConfig(samples_per_client=None):
            population = iid_split(split, p.clients, seed)
        case IidConfig(samples_per_client=int(n)):
            population = IidDraws(split, p.clients, seed, n)
        case DomainsConfig():
            population = by_domain(split)
    if p.concept_shift is not None:
        population = ConceptShift(population, seed, p.concept_shift)
    return population


def build_availability(config: RunConfig) -> Availability | None:
    settings = config.availability
    return None if settings is None else Availability(**settings.model_dump())


def build_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0].split(". ")[0][:120]
        raise ConfigError(f"device '{name}' cannot be used here ({first_line}); use cpu") from error
    return device


@dataclass(frozen=True)
class Where:
    """On which cluster, and with how many workers, if it is not as the config has it."""

    engine: str | None = None
    workers: int | None = None


class Shared:
    """What runs of a comparison need not have each for itself: the data, and one trainer."""

    def __init__(self, where: Where | None = None) -> None:
        self.split: DataSplit | None = None
        self.trainer: Trainer | None = None
        self.pool: Pool | None = None
        """The workers of a Ray cluster."""
        self.where = Where() if where is None else where
        self.rounds: int | None = None
        """How many will be trained in all, where that is more than a run's own."""


def build_simulation(
    config: RunConfig, store: Store | None = None, shared: Shared | None = None
) -> Simulation:
    """All of a run but its folder."""
    shared = Shared() if shared is None else shared
    algorithm = config.build_algorithm()
    training = Training(**config.training.model_dump())
    shared.split = split = build_data(config.data) if shared.split is None else shared.split
    population = build_population(config, split)
    with torch_seeded(config.seed, "init"):
        model = build_model(config.model.name, split.train.x.shape[1:], split.train.classes)
    check_model(model, algorithm, split)
    require_images(training.augmentation, split.train.x.shape[1:])
    cohort = config.population.cohort or population.size
    rounds = shared.rounds or config.rounds
    stacking = Stacking(config.precision, config.lanes, config.compile, rounds)
    engine: Engine
    if is_ray(config.engine):
        store = MemoryStore() if store is None else store
        engine = make_ray_engine(
            _cluster(config, shared),
            population,
            model,
            algorithm,
            training,
            config.seed,
            store,
            device=config.device,
            stacking=stacking,
            cohort=cohort,
        )
        shared.pool = engine.pool
    else:
        engine = make_engine(
            config.engine,
            model,
            algorithm,
            training,
            config.seed,
            device=build_device(config.device),
            stacking=stacking,
            cohort=cohort,
            trainer=shared.trainer,
            sample=(split.train.x[:4], split.train.y[:4]),
        )
        shared.trainer = getattr(engine, "trainer", None)
    return Simulation(
        population,
        model,
        algorithm,
        training,
        engine,
        cohort=cohort,
        seed=config.seed,
        store=store,
        availability=build_availability(config),
    )


def _cluster(config: RunConfig, shared: Shared) -> Clustered:
    settings = config.ray or RayConfig()
    return Clustered(
        shared.where.engine or config.engine,
        shared.where.workers or settings.workers,
        settings.within,
        settings.block,
        config.threads,
        shared.pool,
    )


def check_model(model: nn.Module, algorithm: Algorithm, split: DataSplit) -> None:
    """Refuse a model that does not fit the algorithm or the data before anything is done."""
    if algorithm.sharing != "everything" and not stays_local(model, algorithm.sharing):
        raise ConfigError(
            f"{algorithm.label} keeps batch-norm layers on the clients, but the model has none; "
            "use one that has, such as cnn-bn, or sharing = 'everything'"
        )
    shape, classes = tuple(split.train.x.shape[1:]), split.train.classes
    try:
        outputs = forward(model, split.train.x[:2])
    except (RuntimeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"the model cannot take samples of shape {shape}: {str(error).splitlines()[0]}"
        ) from error
    if not isinstance(outputs, torch.Tensor):
        raise ConfigError(f"the model gives a {type(outputs).__name__}; it must give a tensor")
    if outputs.ndim != 2 or outputs.shape[1] != classes:
        raise ConfigError(
            f"the model gives outputs of shape {tuple(outputs.shape)} for 2 samples; with "
            f"{classes} classes it must be (2, {classes})"
        )
