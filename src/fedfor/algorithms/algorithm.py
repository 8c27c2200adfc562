"""An algorithm is three independent choices: ClientOpt x ServerOpt x Sharing."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

from ..errors import require_choice
from .average import Average
from .clientopt import ClientOpt
from .fedavg import FedAvg
from .serveropt import ServerOpt
from .sharing import SHARINGS, Sharing

Weighting = Literal["uniform", "examples"]
"""How clients count in the average: alike, as in the paper, or by their number of examples."""


def settings(part: ClientOpt | ServerOpt) -> dict[str, Any]:
    """The hyper-parameters of one part, by name. One's own need have none, and be no dataclass."""
    if not is_dataclass(part):
        return {}
    return {f.name: getattr(part, f.name) for f in fields(part)}


@dataclass(frozen=True)
class Algorithm:
    client: ClientOpt = field(default_factory=FedAvg)
    server: ServerOpt = field(default_factory=Average)
    sharing: Sharing = "everything"
    weighting: Weighting = "uniform"

    def __post_init__(self) -> None:
        require_choice("algorithm", "sharing", self.sharing, SHARINGS)
        require_choice("algorithm", "weighting", self.weighting, get_args(Weighting))

    @property
    def stateless(self) -> bool:
        """Whether clients keep nothing between rounds."""
        return not self.client.keeps and self.sharing == "everything"

    @property
    def label(self) -> str:
        """A name that says what is not plain: fedfor, fedfor+fedadam, fedprox+fedbn, ..."""
        parts = [] if isinstance(self.client, FedAvg) else [self.client.name]
        if not isinstance(self.server, Average):
            parts.append(self.server.name)
        if self.sharing == "all-but-batch-norm":
            parts.append("fedbn")
        return "+".join(parts or ["fedavg"])

    def describe(self) -> str:
        """The label with all settings, as in messages and logs."""
        shown = {**settings(self.client)}
        if not isinstance(self.server, Average) or self.server.lr != 1:
            shown |= {f"server.{k}": v for k, v in settings(self.server).items()}
        if self.weighting != "uniform":
            shown["weighting"] = self.weighting
        inside = ", ".join(f"{k} {v:g}" if is_number(v) else f"{k} {v}" for k, v in shown.items())
        return f"{self.label} ({inside})" if inside else self.label

    def advice(self) -> str:
        """What to change when training diverges."""
        return "; ".join(filter(None, [self.client.advice(), self.server.advice()]))


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
