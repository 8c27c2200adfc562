from dataclasses import dataclass
from typing import ClassVar

from .clientopt import ClientOpt


@dataclass(frozen=True)
class FedAvg(ClientOpt):
    """FedAvg (McMahan et al., 2017): plain local training, nothing added.

        L_k(w)

    From: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized
    Data, AISTATS 2017, arXiv:1602.05629.
    """

    name: ClassVar[str] = "fedavg"
