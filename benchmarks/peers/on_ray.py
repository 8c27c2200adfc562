"""fedfor on a Ray cluster of this machine."""

import time

from torch import nn

from fedfor.algorithms import algorithm
from fedfor.engines import Training
from fedfor.engines.clustered import Clustered, Within, make_ray_engine
from fedfor.experiments.simulation import Simulation
from fedfor.experiments.store import MemoryStore
from fedfor.protocol.local import load_tensors

from .ours import population
from .task import BATCH, RATE, make_model


def run(
    name: str, rounds: int, clients: int, workers: int, within: Within = "auto"
) -> tuple[list[float], nn.Module]:
    model, clients_here, store = make_model(name), population(clients), MemoryStore()
    what = (model, algorithm("fedavg"), Training(epochs=1, batch_size=BATCH, lr=RATE))
    how = Clustered(workers=workers, within=within)
    engine = make_ray_engine(how, clients_here, *what, 0, store, cohort=clients)
    simulation = Simulation(clients_here, *what, engine, cohort=clients, seed=0, store=store)
    ends: list[float] = []
    try:
        for number in range(1, rounds + 1):
            simulation.round(evaluate=number == rounds)
            ends.append(time.perf_counter())
    finally:
        engine.close()
    load_tensors(model, simulation.server.model)
    return ends, model
