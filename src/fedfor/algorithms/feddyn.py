from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import require_number
from .clientopt import ClientOpt, Cohort, Local, Named, Outcome, Scalar, lead


def feddyn_gradient(w: Tensor, w0: Tensor, h_k: Tensor, alpha: Scalar) -> Tensor:
    """The gradient of  -h_k^T w + alpha/2 ||w - w0||^2."""
    return lead(alpha, w) * (w - w0) - h_k


@dataclass(frozen=True)
class FedDyn(ClientOpt):
    """FedDyn (Acar et al., 2021): a dynamic regulariser that makes local optima agree.

        client:  L_k(w) - h_k^T w + alpha/2 ||w - w0||^2,    then  h_k <- h_k - alpha (w - w0)
        server:  h <- h - alpha/m sum_k (w_k - w0),          then  w = mean w_k - h/alpha

    with m the size of the whole population. h_k stands for the local gradient at the client's
    last model. The FedFOR paper prints the linear term with a plus sign and no server state;
    this follows Acar et al. A client never seen before has h_k = 0: only the proximal term.
    With averaging by examples, the server's sum is the cohort's size times the weighted mean.

    From: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021,
    arXiv:2111.04263.
    """

    name: ClassVar[str] = "feddyn"
    keeps: ClassVar[tuple[str, ...]] = ("own_gradient",)
    server_keeps: ClassVar[tuple[str, ...]] = ("h",)

    alpha: float = 0.01
    """The weight of the proximal term; unstable when small."""

    def __post_init__(self) -> None:
        require_number(self.name, "alpha", self.alpha, above=0)

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return feddyn_gradient(w, w0, x["own_gradient"], self.alpha)

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        return Outcome(upload=w, kept={"own_gradient": x["own_gradient"] - self.alpha * (w - w0)})

    def propose(
        self, w0: Tensor, mean: Tensor, sums: Named, state: Named, cohort: Cohort
    ) -> tuple[Tensor, dict[str, Tensor]]:
        share = cohort.count / cohort.population
        h = state["h"] - self.alpha * share * (mean - w0)
        return mean - h / self.alpha, {"h": h}

    def advice(self) -> str:
        return f"try another algorithm.alpha (now {self.alpha:g}); FedDyn is unstable when small"
