from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import require_number
from .clientopt import ClientOpt, Local, Named, Scalar, lead


def fedprox_gradient(w: Tensor, w0: Tensor, mu: Scalar) -> Tensor:
    """The gradient of  mu/2 ||w - w0||^2."""
    return lead(mu, w) * (w - w0)


@dataclass(frozen=True)
class FedProx(ClientOpt):
    """FedProx (Li et al., 2020): stay near the global model.

        L_k(w) + mu/2 ||w - w0||^2

    What lets clients do unlike amounts of work in the original is not a part of it here. From: Li
    et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, arXiv:1812.06127.
    """

    name: ClassVar[str] = "fedprox"

    mu: float = 0.01
    """How strongly a client is held; 0 is FedAvg."""

    def __post_init__(self) -> None:
        require_number(self.name, "mu", self.mu, least=0)

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return fedprox_gradient(w, w0, self.mu)

    def advice(self) -> str:
        return f"lower algorithm.mu (now {self.mu:g}): mu times the learning rate must be below 2"
