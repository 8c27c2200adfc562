from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import require_number
from .clientopt import ClientOpt, Local, Named, Outcome, Scalar, lead


def fedpd_gradient(w: Tensor, w0: Tensor, dual: Tensor, eta: Scalar) -> Tensor:
    """The gradient of  dual^T (w - w0) + 1/(2 eta) ||w - w0||^2."""
    return dual + (w - w0) / lead(eta, w)


@dataclass(frozen=True)
class FedPD(ClientOpt):
    """FedPD (Zhang et al., 2020): the augmented Lagrangian of consensus, solved on each client.

        L_k(w) + lambda_k^T (w - w0) + 1/(2 eta) ||w - w0||^2
        then  lambda_k <- lambda_k + (w - w0)/eta,  and  w + eta lambda_k  goes up

    eta is the Lagrangian's own constant, not the learning rate. The FedFOR paper prints the local
    loss only; the dual step and what goes up are Zhang et al.'s. They call all clients every
    round, and so does this with a full cohort; with a part of them only those called move. They
    may skip the server in some rounds; here it is asked in each (their p = 0). Local training
    starts at w0 rather than at the client's own last model, which saves keeping that.
    A client never seen before has lambda_k = 0: only the proximal term.

    From: Zhang et al., FedPD: A Federated Learning Framework with Optimal Rates and Adaptivity to
    Non-IID Data, 2020, arXiv:2005.11418.
    """

    name: ClassVar[str] = "fedpd"
    keeps: ClassVar[tuple[str, ...]] = ("dual",)

    eta: float = 10.0
    """The Lagrangian's constant: the smaller, the nearer a client stays."""

    def __post_init__(self) -> None:
        require_number(self.name, "eta", self.eta, above=0)

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return fedpd_gradient(w, w0, x["dual"], self.eta)

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        dual = x["dual"] + (w - w0) / self.eta
        return Outcome(upload=w + self.eta * dual, kept={"dual": dual})

    def advice(self) -> str:
        return f"try another algorithm.eta (now {self.eta:g})"
