"""FedAvg without a framework: what the work itself costs on one core."""

import time

import torch
from torch import nn

from .task import make_data, make_model, train_client


def run(name: str, rounds: int, clients: int) -> tuple[list[float], nn.Module]:
    xs, ys = make_data(clients)
    model = make_model(name)
    center = {key: value.clone() for key, value in model.state_dict().items()}
    ends = []
    for _ in range(rounds):
        total = {key: torch.zeros_like(value) for key, value in center.items()}
        for x, y in zip(xs, ys, strict=True):
            model.load_state_dict(center)
            train_client(model, x, y)
            for key, value in model.state_dict().items():
                total[key] += value
        center = {key: value / clients for key, value in total.items()}
        ends.append(time.perf_counter())
    model.load_state_dict(center)
    return ends, model
