from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .clientopt import ClientOpt, Cohort, Local, Named, Outcome, lead


def scaffold_gradient(c: Tensor, c_k: Tensor) -> Tensor:
    """The gradient of  (c - c_k)^T w."""
    return c - c_k


@dataclass(frozen=True)
class Scaffold(ClientOpt):
    """SCAFFOLD (Karimireddy et al., 2020), option II: control variates against client drift.

        client:  L_k(w) + (c - c_k)^T w,   then  c_k <- c_k - c + (w0 - w)/(tau eta)
        server:  c <- c + 1/N sum_k (change of c_k)

    with eta the local learning rate, tau the local steps taken and N the size of the population.
    The server's step size of the original is the `lr` of the ServerOpt `average`.

    From: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning,
    ICML 2020, arXiv:1910.06378.
    """

    name: ClassVar[str] = "scaffold"
    down: ClassVar[tuple[str, ...]] = ("control",)
    up: ClassVar[tuple[str, ...]] = ("control_change",)
    keeps: ClassVar[tuple[str, ...]] = ("own_control",)
    server_keeps: ClassVar[tuple[str, ...]] = ("control",)

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return scaffold_gradient(x["control"], x["own_control"])

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        change = (w0 - w) / lead(local.steps * local.lr, w) - x["control"]
        return Outcome(
            upload=w,
            up={"control_change": change},
            kept={"own_control": x["own_control"] + change},
        )

    def propose(
        self, w0: Tensor, mean: Tensor, sums: Named, state: Named, cohort: Cohort
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return mean, {"control": state["control"] + sums["control_change"] / cohort.population}
