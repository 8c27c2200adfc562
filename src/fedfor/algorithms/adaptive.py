from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import require_number
from .clientopt import Named, Scalar
from .momentum import require_momentum
from .serveropt import ServerOpt


@dataclass(frozen=True)
class Adaptive(ServerOpt):
    """What FedAdagrad, FedAdam and FedYogi share (Reddi et al., 2021, Algorithm 2).

        Delta = mean w_k - w,    m <- beta1 m + (1 - beta1) Delta,    v <- (each its own)
        w <- w + lr m / (sqrt(v) + tau)

    v starts at tau^2, and there is no bias correction, as in the original.
    """

    keeps: ClassVar[tuple[str, ...]] = ("m", "v")

    lr: float = 0.01
    """The server's step size."""
    beta1: float = 0.9
    """The momentum of Delta."""
    tau: float = 1e-3
    """Added to sqrt(v); the larger, the less adaptive."""

    def __post_init__(self) -> None:
        require_number(self.name, "lr", self.lr, above=0)
        require_momentum(self.name, "beta1", self.beta1)
        require_number(self.name, "tau", self.tau, above=0)

    def initial(self, kept: str) -> float:
        return self.tau**2 if kept == "v" else 0.0

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        raise NotImplementedError

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        delta = proposal - w
        m = self.beta1 * state["m"] + (1 - self.beta1) * delta
        v = self.second_moment(state["v"], delta * delta)
        return w + self.lr * m / (v.sqrt() + self.tau), {"m": m, "v": v}

    def advice(self) -> str:
        return f"lower algorithm.server.lr (now {self.lr:g})"


@dataclass(frozen=True)
class FedAdagrad(Adaptive):
    """FedAdagrad (Reddi et al., 2021): the server's steps divided by all that has moved so far.

        Delta = mean w_k - w,    m <- beta1 m + (1 - beta1) Delta,    v <- v + Delta^2
        w <- w + lr m / (sqrt(v) + tau)

    v starts at tau^2, there is no bias correction, and no momentum by default, as in the original.
    From: Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.
    """

    name: ClassVar[str] = "fedadagrad"

    beta1: float = 0.0
    """The momentum of Delta."""

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v + square


@dataclass(frozen=True)
class FedAdam(Adaptive):
    """FedAdam (Reddi et al., 2021): the server's steps divided by what has moved of late.

        Delta = mean w_k - w,    m <- beta1 m + (1 - beta1) Delta
        v <- beta2 v + (1 - beta2) Delta^2
        w <- w + lr m / (sqrt(v) + tau)

    v starts at tau^2, and there is no bias correction, as in the original. From: Reddi et al.,
    Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.
    """

    name: ClassVar[str] = "fedadam"

    beta2: float = 0.99
    """The memory of v."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_momentum(self.name, "beta2", self.beta2)

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedYogi (Reddi et al., 2021): FedAdam whose v falls more slowly.

        Delta = mean w_k - w,    m <- beta1 m + (1 - beta1) Delta
        v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)
        w <- w + lr m / (sqrt(v) + tau)

    v starts at tau^2, and there is no bias correction, as in the original. From: Reddi et al.,
    Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295.
    """

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v - (1 - self.beta2) * square * torch.sign(v - square)
