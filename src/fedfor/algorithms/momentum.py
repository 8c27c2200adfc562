from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import ConfigError, require_number
from .clientopt import Named, Scalar, lead
from .serveropt import ServerOpt


def require_momentum(owner: str, setting: str, value: float) -> None:
    require_number(owner, setting, value, least=0)
    if value >= 1:
        raise ConfigError(f"{owner}: {setting} must be less than 1 (got {value:g})")


@dataclass(frozen=True)
class FedAvgM(ServerOpt):
    """FedAvgM (Hsu et al., 2019): server momentum.

        v <- momentum v + (w - mean w_k),    w <- w - lr v

    From: Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution for Federated
    Visual Classification, 2019, arXiv:1909.06335.
    """

    name: ClassVar[str] = "fedavgm"
    keeps: ClassVar[tuple[str, ...]] = ("momentum",)

    momentum: float = 0.9
    """The share of the last step that goes on into this one."""
    lr: float = 1.0
    """The server's step size."""

    def __post_init__(self) -> None:
        require_momentum(self.name, "momentum", self.momentum)
        require_number(self.name, "lr", self.lr, above=0)

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        v = self.momentum * state["momentum"] + (w - proposal)
        return w - self.lr * v, {"momentum": v}

    def advice(self) -> str:
        return f"lower algorithm.server.momentum (now {self.momentum:g})"


@dataclass(frozen=True)
class SlowMo(ServerOpt):
    """SlowMo (Wang et al., 2019): slow momentum, in units of the local learning rate.

        u <- beta u + (w - mean w_k)/gamma,    w <- w - lr gamma u

    gamma is the local learning rate of the round. Where it changes, the momentum keeps its
    meaning as a gradient; where it is constant, SlowMo is FedAvgM. `lr` is the paper's alpha.

    From: Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow
    Momentum, ICLR 2020, arXiv:1910.00643.
    """

    name: ClassVar[str] = "slowmo"
    keeps: ClassVar[tuple[str, ...]] = ("slow_momentum",)

    beta: float = 0.5
    """The share of the last step that goes on into this one."""
    lr: float = 1.0
    """The server's step size."""

    def __post_init__(self) -> None:
        require_momentum(self.name, "beta", self.beta)
        require_number(self.name, "lr", self.lr, above=0)

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        gamma = lead(client_lr, w)
        u = self.beta * state["slow_momentum"] + (w - proposal) / gamma
        return w - self.lr * gamma * u, {"slow_momentum": u}

    def advice(self) -> str:
        return f"lower algorithm.server.beta (now {self.beta:g})"
