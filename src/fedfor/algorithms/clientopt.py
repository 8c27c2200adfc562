"""ClientOpt: what changes in local training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

Named = Mapping[str, Tensor]
"""One parameter's tensors by what they are: its direction, its control variate, ..."""

Scalar = float | Tensor
"""A number, or one number per client as a tensor over the leading client axes."""


def lead(value: Scalar, like: Tensor) -> Scalar:
    """Line a per-client scalar up with the leading axes of a stacked tensor."""
    if not isinstance(value, Tensor):
        return value
    return value.reshape(value.shape + (1,) * (like.ndim - value.ndim))


@dataclass(frozen=True)
class Local:
    """What a client knows of its own round besides tensors."""

    lr: Scalar
    steps: Scalar = 1
    """Local steps of the whole round: tau in the docs."""
    seen_last_round: Scalar = 0.0
    """1 if this client took part in the round before, else 0."""


@dataclass(frozen=True)
class Cohort:
    """How many clients took part in a round, out of how many."""

    count: int
    population: int


@dataclass(frozen=True)
class Outcome:
    """What comes of one parameter when local training is over."""

    upload: Tensor
    """Goes up as the client's model."""
    up: Named = field(default_factory=dict)
    kept: Named = field(default_factory=dict)


class ClientOpt:
    """A gradient that is added at each local step, and the tensors it lives on.

    Every method works on one parameter at a time, elementwise, so it runs unchanged on a stack of
    clients. `x` holds the extras by name: what came down and what the client kept. An extra that
    was not sent (round 1) or not kept (a new client) is zero.
    """

    name: ClassVar[str]
    down: ClassVar[tuple[str, ...]] = ()
    """Sent to clients beside the model."""
    up: ClassVar[tuple[str, ...]] = ()
    """Sent back beside the model; the server gets the sums over the cohort."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Kept on each client between its rounds. Empty: the method is stateless."""
    server_keeps: ClassVar[tuple[str, ...]] = ()
    """Kept on the server between rounds, `down` included."""
    difference: ClassVar[str | None] = None
    """The extra, if any, that is the last change of the global model: a client that still has the
    model before it (cross-silo) needs nothing else."""
    needs_fisher: ClassVar[bool] = False
    """Whether `finish` wants `x["fisher"]`, the diagonal of the empirical Fisher matrix."""

    @property
    def sent_as(self) -> Mapping[str, str]:
        """The form in which each extra of `down` travels: `float16`, `int8` or `sign`, as in
        protocol/compression.py. What is not named travels as it is."""
        return {}

    @property
    def needs_steps(self) -> bool:
        """Whether `added_gradient` must know beforehand how many steps there will be."""
        return False

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor | None:
        """What is added to the gradient at `w` in a round that began at `w0`; None for nothing."""
        return None

    def finish(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Outcome:
        """On the client, after the last step."""
        return Outcome(upload=w)

    def propose(
        self, w0: Tensor, mean: Tensor, sums: Named, state: Named, cohort: Cohort
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """On the server: where the model should go, and the new server state."""
        return mean, dict(state)

    def after(self, old: Tensor, new: Tensor, state: Named) -> dict[str, Tensor]:
        """On the server, once the ServerOpt has moved the model from `old` to `new`."""
        return dict(state)

    def advice(self) -> str:
        """What to change when training diverges."""
        return ""
