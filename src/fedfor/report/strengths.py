"""FedFOR's strength in the unit of each reading, so that one run stands for all of them."""

import statistics
import warnings
from pathlib import Path
from typing import get_args

from ..algorithms import FedFOR
from ..algorithms.clientopt import Local
from ..algorithms.fedfor import Strength
from ..paper.results import Results

READINGS: tuple[Strength, ...] = get_args(Strength)


def alphas(results: Results) -> dict[tuple[str, str], dict[Strength, float]]:
    """For each point and row with FedFOR's penalty: the alpha that each reading calls it.

    The readings differ in the unit of alpha alone as long as the rate and the number of local steps
    stay what they are; where clients have unlike numbers of them, their mean is taken. A run that
    never finished a round has no such number, and no place here.
    """
    found: dict[tuple[str, str], dict[Strength, float]] = {}
    with warnings.catch_warnings(action="ignore"):  # of training, which is over
        cells = results.study.with_seeds(1).cells(Path())
    for cell in cells:
        client = cell.config.build_algorithm().client
        of_cell = [o.metrics.get("local_steps") for o in results.of(cell.point, cell.label)]
        steps = [tau for tau in of_cell if tau]
        if not isinstance(client, FedFOR) or not steps:
            continue
        local = Local(cell.config.training.lr, statistics.fmean(steps))
        c = float(client.c(local))
        found[cell.point, cell.label] = {
            reading: c / float(FedFOR(alpha=1, strength=reading).c(local)) for reading in READINGS
        }
    return found
