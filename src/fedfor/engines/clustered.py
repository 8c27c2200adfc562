"""How work is shared out over a Ray cluster, and what its workers train with."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import nn

from ..algorithms import Algorithm
from ..errors import ConfigError, require_choice, require_whole
from .choose import make_engine
from .fisher import Loss
from .names import RAY
from .stacking import DEFAULT, Stacking
from .training import Training

if TYPE_CHECKING:
    from ..data import Population
    from .ray.engine import RayEngine
    from .ray.keeping import States
    from .ray.pool import Pool

Within = Literal["auto", "serial", "vector"]

FEWEST, BLOCKS, MOST = 4, 16, 64
"""A cohort is cut into so many blocks, as far as they have no fewer and no more clients. Never by
the number of workers: results must not depend on it."""


@dataclass(frozen=True)
class Clustered:
    """Settings of the ray engine."""

    engine: str = RAY
    """ray, or where the cluster is."""
    workers: int | None = None
    """None: as many as the cluster has room for."""
    within: Within = "auto"
    """What a worker trains with."""
    block: int | None = None
    """Clients that a worker's vector engine trains together. None: by the size of the cohort."""
    threads: int = 1
    pool: "Pool | None" = None
    """Workers that serve other runs already."""

    def __post_init__(self) -> None:
        require_choice("ray", "within", self.within, get_args(Within))
        for name in ("workers", "block"):
            if (value := getattr(self, name)) is not None:
                require_whole("ray", name, value)


def make_ray_engine(
    how: Clustered,
    population: "Population",
    model: nn.Module,
    algorithm: Algorithm,
    training: Training,
    seed: int,
    states: "States",
    loss: Loss = nn.functional.cross_entropy,
    *,
    device: str = "cpu",
    stacking: Stacking = DEFAULT,
    cohort: int = 2,
) -> "RayEngine":
    """The engine ray. The cluster is not asked for anything before the first round."""
    from .ray.cluster import imported

    imported()
    from .ray.engine import RayEngine
    from .ray.orders import Federation
    from .ray.pool import Pool

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"device '{device}' is none of the ray engine's; use cpu or cuda")
    block = how.block or min(MOST, max(FEWEST, -(-cohort // BLOCKS)))

    def stacks() -> bool:
        """Whether workers train stacks; tried out here, on a CPU."""
        if how.within == "serial":
            return False
        sample = (population.train.x[:4], population.train.y[:4])
        what = (model, algorithm, training, seed, loss)
        if device == "cpu":
            here = make_engine(how.within, *what, stacking=stacking, cohort=block, sample=sample)
            return here.name == "vector"
        from .vector import VectorEngine

        try:
            VectorEngine(*what).check(*sample)
        except ConfigError as error:
            if how.within == "vector":
                raise
            warnings.warn(f"one client after another, because {error}", stacklevel=3)
            return False
        return True

    within: Literal["serial", "vector"] = "vector" if stacks() else "serial"
    federation = Federation(
        population, model, algorithm, training, seed, loss, within, stacking, device, how.threads
    )
    pool = how.pool or Pool(how.engine, how.workers, gpus=device.startswith("cuda"))
    return RayEngine(pool, federation, block=block if within == "vector" else 1, states=states)
