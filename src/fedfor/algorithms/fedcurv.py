from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import require_number
from .clientopt import ClientOpt, Cohort, Local, Named, Outcome, Scalar, lead


def fedcurv_gradient(w: Tensor, f: Tensor, g: Tensor, lam: Scalar) -> Tensor:
    """The gradient of  lam sum_j (w - w_j)^T diag(F_j) (w - w_j),  f = sum F_j, g = sum F_j w_j."""
    return 2 * lead(lam, w) * (f * w - g)


@dataclass(frozen=True)
class FedCurv(ClientOpt):
    """FedCurv (Shoham et al., 2019): stay where the other clients' Fisher information is high.

        L_k(w) + lam sum_{j != k} (w - w_j)^T diag(F_j) (w - w_j)

    j runs over the clients of the round before, w_j are their models after it and F_j the
    diagonals of their empirical Fisher matrices there. Two sums are enough for all of it. A
    client keeps its own share, to take it out of the sums if it is called again in the next
    round; a client that was not there has no share in them.

    From: Shoham et al., Overcoming Forgetting in Federated Learning on Non-IID Data, 2019,
    arXiv:1910.07796.
    """

    name: ClassVar[str] = "fedcurv"
    down: ClassVar[tuple[str, ...]] = ("fisher_sum", "fisher_w_sum")
    up: ClassVar[tuple[str, ...]] = ("fisher", "fisher_w")
    keeps: ClassVar[tuple[str, ...]] = ("own_fisher", "own_fisher_w")
    server_keeps: ClassVar[tuple[str, ...]] = down
    needs_fisher: ClassVar[bool] = True

    lam: float = 0.001
    """How strongly a client is held; 0 is FedAvg."""

    def __post_init__(self) -> None:
        require_number(self.name, "lam", self.lam, least=0)

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        mine = lead(local.seen_last_round, w)
        f = x["fisher_sum"] - mine * x["own_fisher"]
        g = x["fisher_w_sum"] - mine * x["own_fisher_w"]
        return fedcurv_gradient(w, f, g, self.lam)

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        fisher, fisher_w = x["fisher"], x["fisher"] * w
        return Outcome(
            upload=w,
            up={"fisher": fisher, "fisher_w": fisher_w},
            kept={"own_fisher": fisher, "own_fisher_w": fisher_w},
        )

    def propose(
        self, w0: Tensor, mean: Tensor, sums: Named, state: Named, cohort: Cohort
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return mean, {
            "fisher_sum": sums["fisher"],
            "fisher_w_sum": sums["fisher_w"],
        }

    def advice(self) -> str:
        return f"lower algorithm.lam (now {self.lam:g})"
