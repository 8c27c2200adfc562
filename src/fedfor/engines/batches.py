import numpy as np

from ..data.labelled import Rows


def plan_batches(
    samples: int, batch_size: int, epochs: int, draw: np.random.Generator
) -> list[Rows]:
    """The local batches of a round: positions among a client's samples, shuffled each epoch.

    A last batch of a single sample is left out if there are others: batch norm cannot train on
    one, and as each epoch is shuffled anew, no sample is left out always.
    """
    batches = []
    for _ in range(epochs):
        order = draw.permutation(samples)
        for start in range(0, samples, batch_size):
            batch = order[start : start + batch_size]
            if len(batch) > 1 or start == 0 or batch_size == 1:
                batches.append(batch)
    return batches
