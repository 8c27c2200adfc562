from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import require_number
from .clientopt import Named, Scalar
from .serveropt import ServerOpt


@dataclass(frozen=True)
class Average(ServerOpt):
    """The clients' average becomes the model; with `lr` other than 1, that part of the way.

        w <- w + lr (mean w_k - w)

    With `lr` 1 it is FedAvg's server (McMahan et al., 2017, arXiv:1602.05629).
    """

    name: ClassVar[str] = "average"

    lr: float = 1.0
    """The part of the way that the model goes; above 1, beyond the mean."""

    def __post_init__(self) -> None:
        require_number(self.name, "lr", self.lr, above=0)

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if self.lr == 1:  # to the bit, not up to the rounding of w + (proposal - w)
            return proposal, {}
        return w + self.lr * (proposal - w), {}
