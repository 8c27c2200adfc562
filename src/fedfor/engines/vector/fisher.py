"""The Fisher diagonal of many clients: the mean square of each sample's own gradient."""

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
from .trial import squares_agree

AT_ONCE = {"cpu": 2**25, "cuda": 2**28}
"""Numbers in the matrix of gradients, one row a sample. A GPU wants many samples to be busy."""

BATCHES = {"cpu": 2**25, "cuda": 2**30}
"""Numbers that the samples of one batch may take, of all clients together."""

MOST_SAMPLES = 2**15
"""Each is a lane of our kernels for a while, and a GPU's grid has room for less than 2**16."""

TRIED = 4
"""Samples that are tried, to see whether whole batches give what single samples do."""

KERNEL_COPIES, IMAGE_COPIES = 8, 64
"""What a sample takes in a batch: so many times the largest kernel, and the image."""


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
    of = model, state, samples, data, compiler
    if model.squares is None:
        model.squares = _can_square(model, samples, data)
    sums = _from_batches(*of) if model.squares else _from_single_samples(*of)
    return sums / torch.tensor([len(of_client) for of_client in samples]).to(sums)[:, None]


def _can_square(model: StackedModel, samples: Sequence[Samples], data: Resident) -> bool:
    if not (model.pads and model.loss.mean_of_samples):
        return False
    longest = max(samples, key=len)
    return squares_agree(model, *data.batch(longest, np.resize(longest.rows, TRIED)))


def _most(at_once: dict[str, int], sums: Tensor, numbers: int) -> int:
    """Samples at once that take so many numbers each."""
    return min(MOST_SAMPLES, at_once.get(sums.device.type, at_once["cpu"]) // max(1, numbers))


def _from_batches(
    model: StackedModel,
    state: State,
    samples: Sequence[Samples],
    data: Resident,
    compiler: Compiler,
) -> Tensor:
    """Where each layer can make the squares of all its samples at once."""
    sums = torch.zeros_like(state.weights)
    kernels = [
        len(slot.shape) > 2 and slot.stop - slot.start for slot in model.layout.slots.values()
    ]
    x, y = data.of(samples[0].data)
    numbers = KERNEL_COPIES * max(kernels, default=0) + IMAGE_COPIES * x[0].numel()
    sizes = np.array([len(of_client) for of_client in samples])
    width = evenly(int(sizes.max()), _most(BATCHES, sums, numbers) // len(samples))
    run = _squares_of_batches(model, tuple(state.buffers))
    for start in range(0, int(sizes.max()), width):
        places = start + np.arange(width)
        held = (places < sizes[:, None]).astype(np.int64)
        rows = np.stack([of.rows[np.minimum(places, len(of) - 1)] for of in samples])
        at, weight = data.rows(rows), data.rows(held).to(sums.dtype)
        labels = y[at]
        for i, of_client in enumerate(samples):
            if of_client.relabel is not None:
                labels[i] = of_client.relabel.to(labels.device)[labels[i]]
        inputs = [state.weights, x[at], labels, weight, *state.buffers.values()]
        kind = "fisher of batches", x.shape[1:], width
        sums += compiler.best(kind, len(samples), run, inputs, int(sizes.sum()))(*inputs)
    return sums


def _squares_of_batches(model: StackedModel, held: tuple[str, ...]) -> Flat:
    def run(weights: Tensor, x: Tensor, y: Tensor, weight: Tensor, *buffers: Tensor) -> Tensor:
        named = dict(zip(held, buffers, strict=True))
        squares = model.squared_gradients(weights, named, x, y, weight)
        sums = torch.zeros_like(weights)
        for name, slot in model.layout.slots.items():
            sums[:, slot.start : slot.stop] = squares[name].reshape(len(weights), -1)
        return sums

    return run


def _from_single_samples(
    model: StackedModel,
    state: State,
    samples: Sequence[Samples],
    data: Resident,
    compiler: Compiler,
) -> Tensor:
    """Each sample is a model of its own for one gradient: for any model, and slow."""
    sums = torch.zeros_like(state.weights)
    sizes = [len(of_client) for of_client in samples]
    total = sum(sizes)
    chunk = evenly(total, _most(AT_ONCE, sums, sums.shape[1]))
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
    return sums


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
