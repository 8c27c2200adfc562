"""What non-IID means in a run, at a glance: the classes that its first clients hold."""

import json
from typing import Any

import numpy as np

from ..data import Samples
from .folder import RunFolder, write_atomically
from .simulation import Simulation

NAME = "cohort.json"

MOST_CLIENTS = 40
"""More do not fit into a picture, and there may be any number."""


def write_cohort(folder: RunFolder, simulation: Simulation) -> None:
    """Once for a run, whenever it is not there: it follows from the seed."""
    path = folder.path / NAME
    if not path.exists():
        # On one line: numbers by the hundred, each on its own, are for nobody to read.
        write_atomically(path, (json.dumps(cohort(simulation)) + "\n").encode())


def cohort(simulation: Simulation) -> dict[str, Any]:
    """The first that round 1 called, and how many samples of each class they have."""
    population, train = simulation.population, simulation.population.train
    clients = simulation.caller.call(1).called
    return {
        "round": 1,
        "classes": train.classes,
        "class_names": list(train.class_names),
        "of": len(clients),
        "population": population.size,
        "clients": [
            {"client": client, **_described(population.samples(client, 1))}
            for client in clients[:MOST_CLIENTS]
        ],
    }


def _described(samples: Samples) -> dict[str, Any]:
    """Samples by class; and their domain, if all come from one."""
    data, described = samples.data, dict[str, Any]()
    if data.domain is not None:
        found = np.unique(data.domain.cpu().numpy()[samples.rows]).tolist()
        if len(found) == 1 and found[0] in range(len(data.domains)):
            described["domain"] = data.domains[found[0]]
    counts = np.bincount(samples.own_classes(), minlength=data.classes)
    return described | {"counts": counts.tolist()}
