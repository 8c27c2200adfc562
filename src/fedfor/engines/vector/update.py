"""The weights' step, for all clients of a run at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...algorithms import ClientOpt
from ...errors import ConfigError
from ..training import Training

if TYPE_CHECKING:
    from .step import Term

ELEMENTWISE = (
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax",
    "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
)  # fmt: skip
"""Optimizers that treat each weight alone, so that a stack of clients is like one client."""


@dataclass(frozen=True)
class SgdOptions:
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    @staticmethod
    def of(training: Training) -> "SgdOptions | None":
        """What `sgd_step` can do; None for any other optimizer."""
        options = dict(training.options)
        known = {name: options.pop(name) for name in SgdOptions.__annotations__ if name in options}
        plain = isinstance(training.optimizer, str) and training.optimizer.lower() == "sgd"
        return SgdOptions(**known) if plain and not options else None


def sgd_step(
    w: Tensor, gradient: Tensor, momentum: Tensor | None, lr: Tensor, how: SgdOptions
) -> Tensor:
    """How much torch.optim.SGD takes off w; the momentum, if any, is changed in place."""
    if how.maximize:
        gradient = -gradient
    if how.weight_decay:
        gradient = gradient + how.weight_decay * w
    if momentum is not None:
        momentum.mul_(how.momentum).add_(gradient)
        gradient = gradient + how.momentum * momentum if how.nesterov else momentum
    return lr * gradient


def make_optimizer(training: Training, weights: Tensor, round_: int) -> Optimizer:
    """A torch optimizer on a matrix of weights, one client a row."""
    if not isinstance(training.optimizer, str):
        raise ConfigError(
            "the vector engine cannot use an optimizer that a function makes, which might treat "
            "some parameters unlike others; use engine = 'serial'"
        )
    optimizer = training.make_optimizer([weights], round_)
    name = type(optimizer).__name__
    if name not in ELEMENTWISE:
        raise ConfigError(
            f"the vector engine cannot use the optimizer {name}, which does not treat each weight "
            "alone as far as is known; use engine = 'serial'"
        )
    return optimizer


def with_penalty(client: ClientOpt, gradient: Tensor, w: Tensor, term: "Term") -> Tensor:
    """The gradient and what the ClientOpt adds to its front part, which is shared."""
    shared = term.start.shape[-1]
    if shared == 0:
        return gradient
    front = w[:, :shared]
    added = client.added_gradient(front, term.start, term.extras, term.local)
    if added is None:
        return gradient
    if added.shape not in (front.shape, front[:1].shape):  # one row is the same for all clients
        raise ConfigError(
            f"{client.name}: added_gradient gave shape {tuple(added.shape)} for weights of shape "
            f"{tuple(front.shape)}"
        )
    if shared == gradient.shape[1]:
        return gradient + added
    return torch.cat([gradient[:, :shared] + added, gradient[:, shared:]], dim=1)
