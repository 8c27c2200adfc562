import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from ..errors import require_choice, require_number
from .clientopt import ClientOpt, Local, Named, Scalar, lead

Strength = Literal["step", "loss", "equation"]
Send = Literal["float32", "float16", "int8", "sign"]


def fedfor_gradient(w: Tensor, w0: Tensor, d: Tensor, c: Scalar) -> Tensor:
    """The gradient of  c sum_i U(d_i (w_i - w0_i)),  U(x) = max(x, 0):  eq. (new_loss_3).

    Where d_i (w_i - w0_i) > 0 the client has moved weight i against the last global update and is
    pulled back along it; elsewhere nothing happens. At exactly 0, as at the first local step, the
    derivative of U is taken as 0.
    """
    return lead(c, w) * torch.where(d * (w - w0) > 0, d, torch.zeros_like(d))


def fedfor_linear_gradient(w: Tensor, d: Tensor, c: Scalar) -> Tensor:
    """The gradient of  c d^T (w - w0),  not clipped:  eq. (new_loss_2). The same at every w."""
    return lead(c, w) * d


@functools.cache  # so, once
def _warn_that_equation_explodes() -> None:
    warnings.warn(
        "fedfor with strength = 'equation' and an alpha above 1: a single local step moves an "
        "opposing weight by more than the whole last global update, and training tends to "
        "explode; use strength = 'step' (or 'loss', by all signs what the paper ran), or an "
        "alpha of 0.025 to 0.4",
        stacklevel=2,
    )


@dataclass(frozen=True)
class FedFOR(ClientOpt):
    """FedFOR (Tian et al., 2022): penalise local moves against the last global move.

        L_k(w) + c sum_i U((w_i(t-2) - w_i(t-1)) (w_i - w_i(t-1))),    U(x) = max(x, 0)

    The server sends d = w(t-2) - w(t-1) beside the model w(t-1); clients keep nothing. Round 1
    has no d and no penalty. Buffers are averaged but never penalised.

    The paper leaves the strength c open, so it has several readings (eta is the local learning
    rate, tau the number of local steps in the round):

    - `step`: c = alpha/(eta tau). d is the sum of about tau local steps, so d/(eta tau) is the
      gradient of one, and one alpha can serve any number of local epochs. The default, with
      alpha = 4: of seven strengths the best for each E of the paper's CIFAR-10 (docs/results.md).
    - `loss`: c = alpha. By all signs what the paper's experiments ran.
    - `equation`: c = alpha/eta, as the paper prints it. Explodes with the paper's alpha = 5.

    `clip = false` is the linear form of eq. (new_loss_2), without U.

    `send` is the form in which d goes down; each client computes with what comes out of it:

    - `float32`: as it is, in the type of the model.
    - `float16`: rounded to float16.
    - `int8`: rounded to whole steps, of max|d|/127 in each tensor.
    - `sign`: a bit for the sign of each weight's d, eight to a byte, and the mean of |d| for each
      tensor. A weight that did not move counts as one with d > 0.

    From: Tian, Smith, Kira, FedFOR: Stateless Heterogeneous Federated Learning with First-Order
    Regularization, 2022, arXiv:2209.10537.
    """

    name: ClassVar[str] = "fedfor"
    down: ClassVar[tuple[str, ...]] = ("direction",)
    server_keeps: ClassVar[tuple[str, ...]] = ("direction",)
    difference: ClassVar[str | None] = "direction"

    alpha: float = 4.0
    """How strongly, as `strength` reads it; 0 is FedAvg."""
    strength: Strength = "step"
    """What alpha means."""
    clip: bool = True
    """Whether only moves against the last update are penalised; false: the linear form."""
    send: Send = "float32"
    """The form in which d goes down."""

    def __post_init__(self) -> None:
        require_number(self.name, "alpha", self.alpha, least=0)
        require_choice(self.name, "strength", self.strength, get_args(Strength))
        require_choice(self.name, "send", self.send, get_args(Send))
        if self.strength == "equation" and self.alpha > 1:
            _warn_that_equation_explodes()

    @property
    def sent_as(self) -> Mapping[str, str]:
        return {} if self.send == "float32" else {"direction": self.send}

    @property
    def needs_steps(self) -> bool:
        return self.strength == "step"

    def c(self, local: Local) -> Scalar:
        if self.strength == "step":
            return self.alpha / (local.lr * local.steps)
        if self.strength == "equation":
            return self.alpha / local.lr
        return self.alpha

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        d = x["direction"]
        if not self.clip:
            return fedfor_linear_gradient(w, d, self.c(local))
        return fedfor_gradient(w, w0, d, self.c(local))

    def after(self, old: Tensor, new: Tensor, state: Named) -> dict[str, Tensor]:
        return {"direction": old - new}

    def advice(self) -> str:
        if self.strength == "equation":
            return "set algorithm.strength to 'step', or algorithm.alpha to 0.025 to 0.4"
        return f"lower algorithm.alpha (now {self.alpha:g})"
