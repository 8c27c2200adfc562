"""Which engine trains a model fastest here, by a rule that gives the same answer every time."""

import warnings
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..errors import ConfigError, require_choice
from .fisher import Loss
from .precision import Precision
from .serial import SerialEngine
from .training import Training

if TYPE_CHECKING:
    from .vector import Trainer, VectorEngine

EngineName = Literal["auto", "serial", "vector"]


def make_engine(
    name: EngineName,
    model: nn.Module,
    algorithm: Algorithm,
    training: Training,
    seed: int,
    loss: Loss = nn.functional.cross_entropy,
    device: torch.device | None = None,
    *,
    precision: Precision = "fp32",
    lanes: int | None = None,
    trainer: "Trainer | None" = None,
    sample: tuple[Tensor, Tensor] | None = None,
) -> "SerialEngine | VectorEngine":
    """The engine by its name. With a `sample` of the data, `auto` makes sure that it can be used.

    On a CPU `vector`, too, is serial for a model that is trained faster so.
    """
    require_choice("engine", "name", name, get_args(EngineName))
    require_choice("engine", "precision", precision, get_args(Precision))
    where = torch.device("cpu") if device is None else device

    def serial() -> SerialEngine:
        return SerialEngine(model, algorithm, training, seed, loss, where)

    if name == "serial" or (where.type == "cpu" and not faster_together_on_cpu(model)):
        return serial()
    from .vector import VectorEngine  # imported late: it loads much that serial runs need not

    options: dict[str, Any] = {"precision": precision, "lanes": lanes, "trainer": trainer}
    vector = VectorEngine(model, algorithm, training, seed, loss, where, **options)
    if sample is not None:
        try:
            vector.check(*sample)
        except ConfigError as error:
            if name == "vector":
                raise
            warnings.warn(f"one client after another, because {error}", stacklevel=2)
            return serial()
    return vector


def faster_together_on_cpu(model: nn.Module) -> bool:
    return not any(isinstance(m, nn.modules.conv._ConvNd) for m in model.modules())
