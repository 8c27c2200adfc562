"""Which engine trains a model fastest here, by a rule that gives the same answer every time."""

import warnings
from typing import TYPE_CHECKING, Literal, cast, get_args

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..errors import ConfigError, require_choice
from .fisher import Loss
from .precision import Compile, Precision
from .serial import SerialEngine
from .training import Training

if TYPE_CHECKING:
    from .vector import Trainer, VectorEngine

EngineName = Literal["auto", "serial", "vector"]


def check_precision(precision: str, compile: str) -> tuple[Precision, Compile]:  # noqa: A002
    """Refuse what the vector engine does not know."""
    require_choice("engine", "precision", precision, get_args(Precision))
    require_choice("engine", "compile", compile, get_args(Compile))
    return cast(Precision, precision), cast(Compile, compile)


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
    compile: Compile = "auto",  # noqa: A002
    rounds: int = 1,
    trainer: "Trainer | None" = None,
    sample: tuple[Tensor, Tensor] | None = None,
) -> "SerialEngine | VectorEngine":
    """The engine by its name. With a `sample` of the data, `auto` makes sure that it can be used.

    On a CPU `vector`, too, is serial for a model that is trained faster so.
    """
    require_choice("engine", "name", name, get_args(EngineName))
    check_precision(precision, compile)
    where = torch.device("cpu") if device is None else device

    def serial() -> SerialEngine:
        return SerialEngine(model, algorithm, training, seed, loss, where)

    if name == "serial" or (where.type == "cpu" and not faster_together_on_cpu(model)):
        return serial()
    from .vector import VectorEngine  # imported late: it loads much that serial runs need not

    vector = VectorEngine(
        model,
        algorithm,
        training,
        seed,
        loss,
        where,
        precision=precision,
        lanes=lanes,
        compile=compile,
        rounds=rounds,
        trainer=trainer,
    )
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
