"""Which engine trains a model fastest here, by a rule that gives the same answer every time."""

import logging
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..errors import ConfigError, require_choice
from .fisher import Loss
from .forward import products
from .names import HERE, EngineName
from .serial import SerialEngine
from .stacking import DEFAULT, Stacking
from .training import Training

if TYPE_CHECKING:
    from .vector import Trainer, VectorEngine

log = logging.getLogger("fedfor")

MOST_WEIGHTS = 150_000
MOST_PRODUCTS = 20_000_000
"""In a layer, on average, up to which a stack is faster on a CPU; products are of a whole batch."""


def make_engine(
    name: EngineName,
    model: nn.Module,
    algorithm: Algorithm,
    training: Training,
    seed: int,
    loss: Loss = nn.functional.cross_entropy,
    device: torch.device | None = None,
    *,
    stacking: Stacking = DEFAULT,
    cohort: int = 2,
    trainer: "Trainer | None" = None,
    sample: tuple[Tensor, Tensor] | None = None,
) -> "SerialEngine | VectorEngine":
    """The engine by its name. With a `sample` of the data, `auto` makes sure that it can be used.

    On a CPU `vector`, too, is serial for a model that is trained faster so.
    """
    require_choice("engine", "name", name, HERE)
    where = torch.device("cpu") if device is None else device

    def serial() -> SerialEngine:
        if stacking.precision != "fp32":
            warnings.warn(
                f"precision '{stacking.precision}' is the vector engine's; the serial engine, "
                "which trains here, computes in the type of the weights",
                stacklevel=3,
            )
        return SerialEngine(model, algorithm, training, seed, loss, where)

    together = where.type != "cpu" or (
        cohort > 1
        and faster_together_on_cpu(model, training, None if sample is None else sample[0])
    )
    if name == "vector" and not together:
        log.info("one client after another: on a CPU that is faster for this model and cohort")
    if name == "serial" or not together:
        return serial()
    from .vector import VectorEngine  # imported late: it loads much that serial runs need not

    vector = VectorEngine(
        model,
        algorithm,
        training,
        seed,
        loss,
        where,
        stacking=stacking,
        trainer=trainer,
    )
    if sample is not None:
        try:
            vector.check(*sample)
            if where.type == "cpu" and not vector.trainer.model.pads:
                log.info("one client after another: on a CPU that is faster than unpadded stacks")
                return serial()
            if name == "auto" and vector.trainer.model.draws:
                raise ConfigError(
                    "the model draws at random by other ways than dropout, and what it draws "
                    "would depend on who is trained together; choose engine = 'vector' if that "
                    "does not matter"
                )
        except ConfigError as error:
            if name == "vector":
                raise
            warnings.warn(f"one client after another, because {error}", stacklevel=2)
            return serial()
    return vector


def faster_together_on_cpu(model: nn.Module, training: Training, x: Tensor | None) -> bool:
    """Whether a stack of clients is faster on a CPU than one client after another.

    It is where a layer's work on a batch is small beside what calling it takes, and its weights fit
    a core's cache: `fedfor bench` shows both sides. Never decided by the clock: the same run must
    give the same numbers.
    """
    layers = sum(1 for m in model.modules() if any(True for _ in m.parameters(recurse=False)))
    weights = sum(p.numel() for p in model.parameters())
    if weights > MOST_WEIGHTS * layers:
        return False
    if x is None:
        return True
    return products(model, x) * training.batch_size <= MOST_PRODUCTS * layers
