"""pfl-research: its simulated backend."""

import os
import time

from torch import nn

from .federation import PflFederation
from .task import BATCH, RATE, make_data, make_model


def run(name: str, rounds: int, clients: int) -> tuple[list[float], nn.Module]:
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    net = make_model(name)
    users = list(zip(*make_data(clients), strict=True))
    # With this sampler a cohort of all users has each of them once.
    federation = PflFederation(
        net, users, "minimize_reuse", cohort=clients, batch_size=BATCH, lr=RATE
    )
    ends: list[float] = []
    federation.run(rounds, on_round=lambda: ends.append(time.perf_counter()))
    return ends, net
