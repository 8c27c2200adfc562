"""fedfor, by its one-call interface."""

import time

import numpy as np
import torch
from torch import nn

import fedfor
from fedfor.data import DataSplit, LabelledData, Partition

from .task import BATCH, CLASSES, CLIENTS, RATE, SAMPLES, make_data, make_model


def run(name: str, rounds: int, engine: str, threads: int = 1) -> tuple[list[float], nn.Module]:
    torch.set_num_threads(threads)
    x, y = make_data()
    data = LabelledData("noise", x.flatten(0, 1), y.flatten(), CLASSES)
    few = LabelledData("few", x[0], y[0], CLASSES)
    rows = list(np.arange(CLIENTS * SAMPLES).reshape(CLIENTS, SAMPLES))
    ends: list[float] = []
    history = fedfor.simulate(
        "fedavg",
        Partition(DataSplit(data, few), rows),
        make_model(name),
        rounds=rounds,
        cohort=CLIENTS,
        engine=engine,
        evaluate_every=rounds,
        on_round=lambda record: ends.append(time.perf_counter()),
        epochs=1,
        batch_size=BATCH,
        lr=RATE,
    )
    return ends, history.model
