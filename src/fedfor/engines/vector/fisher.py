"""The Fisher diagonal of many clients: each sample is a model of its own for one gradient."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import Samples
from .model import StackedModel
from .noise import Recorded
from .resident import Resident
from .step import State

AT_ONCE = {"cpu": 2**25, "cuda": 2**28}
"""Numbers in the matrix of gradients, one row a sample. A GPU wants many samples to be busy."""


def stacked_fisher(
    model: StackedModel, state: State, samples: Sequence[Samples], data: Resident
) -> Tensor:
    """For each client, the mean square of its samples' gradients, as a row.

    As in `fisher_diagonal`, batch norm uses its running statistics.
    """
    sums = torch.zeros_like(state.weights)
    most = AT_ONCE.get(sums.device.type, AT_ONCE["cpu"])
    chunk = max(1, most // max(1, sums.shape[1]))
    sizes = [len(of_client) for of_client in samples]
    clients = np.repeat(np.arange(len(samples)), sizes)
    positions = np.concatenate([np.arange(size) for size in sizes])
    for start in range(0, len(clients), chunk):
        some = clients[start : start + chunk]
        x, y = _batches(samples, some, positions[start : start + chunk], data)
        at = torch.from_numpy(some).to(sums.device)
        runs = [(int(k), *map(int, np.searchsorted(some, (k, k + 1)))) for k in np.unique(some)]
        gradients, _, _ = model.gradients(
            state.weights[at],
            {name: b[at] for name, b in state.buffers.items()},
            x[:, None],
            y[:, None],
            None,
            Recorded(),
            train=False,
        )
        for name, slot in model.layout.slots.items():
            square = gradients[name].reshape(len(some), -1).square_()
            for client, first, last in runs:  # added up in the same order every time
                sums[client, slot.start : slot.stop] += square[first:last].sum(0)
    return sums / torch.tensor(sizes).to(sums)[:, None]


def _batches(
    samples: Sequence[Samples],
    clients: NDArray[np.int64],
    positions: NDArray[np.int64],
    data: Resident,
) -> tuple[Tensor, Tensor]:
    """One sample for each place, of the client that is named there."""
    parts = [
        data.batch(samples[client], samples[client].rows[positions[clients == client]])
        for client in np.unique(clients)
    ]
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
