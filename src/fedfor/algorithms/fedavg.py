from dataclasses import dataclass
from typing import ClassVar

from .clientopt import ClientOpt


@dataclass(frozen=True)
class FedAvg(ClientOpt):
    """FedAvg (McMahan et al., 2017): plain local training, nothing added.

    L_k(w)
    """

    name: ClassVar[str] = "fedavg"
