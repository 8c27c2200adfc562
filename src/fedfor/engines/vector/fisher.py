"""The Fisher diagonal of many clients: each sample is a model of its own for one gradient."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import Samples
from ..engine import evenly
from .compiling import Compiler, Flat
from .model import StackedModel
from .noise import Recorded
from .resident import Resident
from .step import State

AT_ONCE = {"cpu": 2**25, "cuda": 2**28}
"""Numbers in the matrix of gradients, one row a sample. A GPU wants many samples to be busy."""


def stacked_fisher(
    model: StackedModel,
    state: State,
    samples: Sequence[Samples],
    data: Resident,
    compiler: Compiler,
) -> Tensor:
    """For each client, the mean square of its samples' gradients, as a row.

    As in `fisher_diagonal`, batch norm uses its running statistics.
    """
    sums = torch.zeros_like(state.weights)
    most = AT_ONCE.get(sums.device.type, AT_ONCE["cpu"])
    sizes = [len(of_client) for of_client in samples]
    total = sum(sizes)
    chunk = evenly(total, most // max(1, sums.shape[1]))
    # Filled up, so that one program serves all chunks.
    fill = -total % chunk
    clients = np.concatenate(
        [np.repeat(np.arange(len(samples)), sizes), np.full(fill, len(samples) - 1)]
    )
    positions = np.concatenate([*(np.arange(size) for size in sizes), np.zeros(fill, np.int64)])
    counts = np.arange(total + fill) < total
    run = _squares(model, tuple(state.buffers))
    for start in range(0, total, chunk):
        who = clients[start : start + chunk]
        x, y = _batch(samples, who, positions[start : start + chunk], data)
        at = torch.from_numpy(who).to(sums.device)
        counted = torch.from_numpy(counts[start : start + chunk]).to(sums.device)
        inputs = [state.weights, at, counted, x[:, None], y[:, None], *state.buffers.values()]
        kind = "fisher", x.shape
        sums += compiler.best(kind, len(samples), run, inputs, total)(*inputs)
    return sums / torch.tensor(sizes).to(sums)[:, None]


def _squares(model: StackedModel, held: tuple[str, ...]) -> Flat:
    def run(
        weights: Tensor, at: Tensor, counted: Tensor, x: Tensor, y: Tensor, *buffers: Tensor
    ) -> Tensor:
        """For each client, the sum over its samples of the squared gradients."""
        of_sample = {name: b[at] for name, b in zip(held, buffers, strict=True)}
        gradients, _, _ = model.gradients(
            weights[at], of_sample, x, y, None, Recorded(), train=False
        )
        who = (torch.arange(len(weights), device=at.device)[:, None] == at) & counted
        sums = torch.zeros_like(weights)
        for name, slot in model.layout.slots.items():
            square = gradients[name].reshape(len(at), -1).square()
            # A product adds up in the same order every time, which scattering on a GPU does not.
            sums[:, slot.start : slot.stop] = who.to(square.dtype) @ square
        return sums

    return run


def _batch(
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
