"""fedfor, by its one-call interface."""

import time

import numpy as np
import torch
from torch import nn

import fedfor
from fedfor.data import DataSplit, LabelledData, Partition

from .task import BATCH, CLASSES, RATE, SAMPLES, make_data, make_model


def population(clients: int) -> Partition:
    x, y = make_data(clients)
    data = LabelledData("noise", x.flatten(0, 1), y.flatten(), CLASSES)
    few = LabelledData("few", x[0], y[0], CLASSES)
    rows = list(np.arange(clients * SAMPLES).reshape(clients, SAMPLES))
    return Partition(DataSplit(data, few), rows)


def run(
    name: str, rounds: int, clients: int, engine: str, threads: int = 1
) -> tuple[list[float], nn.Module]:
    torch.set_num_threads(threads)
    ends: list[float] = []
    history = fedfor.simulate(
        "fedavg",
        population(clients),
        make_model(name),
        rounds=rounds,
        cohort=clients,
        engine=engine,
        evaluate_every=rounds,
        on_round=lambda record: ends.append(time.perf_counter()),
        epochs=1,
        batch_size=BATCH,
        lr=RATE,
    )
    return ends, history.model
