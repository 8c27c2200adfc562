"""ServerOpt: what changes in aggregation."""

from typing import ClassVar

from torch import Tensor

from .clientopt import Named, Scalar


class ServerOpt:
    """How the global model moves from `w` towards what the clients propose.

    One parameter at a time; if it is elementwise, a simulation may give it all of them, laid end
    to end as one. Buffers (batch-norm statistics) are always averaged.
    """

    name: ClassVar[str]
    keeps: ClassVar[tuple[str, ...]] = ()
    """Kept on the server between rounds."""

    def initial(self, kept: str) -> float:
        """What each element of a kept tensor starts from."""
        return 0.0

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The new global parameter and the new state. `client_lr` is this round's local rate."""
        raise NotImplementedError

    def advice(self) -> str:
        """What to change when training diverges."""
        return ""
