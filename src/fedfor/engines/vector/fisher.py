"""The Fisher diagonal of many clients: each sample is a model of its own for one gradient."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...data import Samples
from .model import StackedModel
from .noise import Recorded
from .resident import Resident
from .step import State

AT_ONCE = 2**25
"""Numbers in the matrix of gradients, one row a sample."""


def stacked_fisher(
    model: StackedModel, state: State, samples: Sequence[Samples], data: Resident
) -> Tensor:
    """For each client, the mean square of its samples' gradients, as a row.

    As in `fisher_diagonal`, batch norm uses its running statistics.
    """
    sums = torch.zeros_like(state.weights)
    chunk = max(1, AT_ONCE // max(1, sums.shape[1]))
    for client, of_client in enumerate(samples):
        for start in range(0, len(of_client), chunk):
            rows = of_client.rows[start : start + chunk]
            x, y = data.batch(of_client, rows)
            count = len(rows)
            at = torch.full((count,), client, device=x.device)
            gradients, _, _ = model.gradients(
                state.weights[client].expand(count, -1),
                {name: b[at] for name, b in state.buffers.items()},
                x[:, None],
                y[:, None],
                None,
                Recorded(),
                train=False,
            )
            for name, slot in model.layout.slots.items():
                square = gradients[name].reshape(count, -1).square().sum(0)
                sums[client, slot.start : slot.stop] += square
    counts = np.array([len(s) for s in samples])
    return sums / torch.from_numpy(counts).to(sums)[:, None]
