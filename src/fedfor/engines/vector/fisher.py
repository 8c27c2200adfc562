"""The Fisher diagonal of many clients: the mean square of each sample's own gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    fisher = Fisher(model, state, samples, data, compiler)
    if model.squares is None:
        model.squares = fisher.can_square()
    sums = fisher.of_batches() if model.squares else fisher.of_single_samples()
    return sums / torch.from_numpy(fisher.sizes).to(sums)[:, None]


@dataclass(frozen=True)
class Fisher:
    """The sums of squares of some clients' samples, in two ways."""

    model: StackedModel
    state: State
    samples: Sequence[Samples]
    data: Resident
    compiler: Compiler

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([len(of_client) for of_client in self.samples])

    def can_square(self) -> bool:
        """Whether whole batches give the same."""
        if not (self.model.pads and self.model.loss.mean_of_samples):
            return False
        longest = max(self.samples, key=len)
        tried = self.data.batch(longest, np.resize(longest.rows, TRIED))
        return squares_agree(self.model, *tried)

    def of_batches(self) -> Tensor:
        """Where each layer can make the squares of all its samples at once."""
        weights, buffers = self.state.weights, self.state.buffers
        x, y = self.data.of(self.samples[0].data)
        slots = self.model.layout.slots.values()
        kernel = max((s.stop - s.start for s in slots if len(s.shape) > 2), default=0)
        numbers = KERNEL_COPIES * kernel + IMAGE_COPIES * x[0].numel()
        sizes, longest = self.sizes, int(self.sizes.max())
        width = evenly(longest, self._most(BATCHES, numbers) // len(sizes))
        run = _squares_of_batches(self.model, tuple(buffers))
        sums = torch.zeros_like(weights)
        for start in range(0, longest, width):
            places = start + np.arange(width)
            rows = np.stack([of.rows[np.minimum(places, len(of) - 1)] for of in self.samples])
            counted = (places < sizes[:, None]).astype(np.int64)
            at, weight = self.data.rows(rows), self.data.rows(counted).to(sums.dtype)
            labels = y[at]
            for i, of_client in enumerate(self.samples):
                if of_client.relabel is not None:
                    labels[i] = of_client.relabel.to(labels.device)[labels[i]]
            inputs = [weights, x[at], labels, weight, *buffers.values()]
            kind = "fisher of batches", x.shape[1:], width
            best = self.compiler.best(kind, len(sizes), run, inputs, int(sizes.sum()))
            sums += best(*inputs)
        return sums

    def of_single_samples(self) -> Tensor:
        """Each sample is a model of its own for one gradient: for any model, and slow."""
        weights, buffers = self.state.weights, self.state.buffers
        sizes, total = self.sizes, int(self.sizes.sum())
        chunk = evenly(total, self._most(AT_ONCE, weights.shape[1]))
        # Filled up, so that one program serves all chunks.
        fill = -total % chunk
        clients = np.append(np.repeat(np.arange(len(sizes)), sizes), np.full(fill, len(sizes) - 1))
        positions = np.concatenate([*map(np.arange, sizes), np.zeros(fill, np.int64)])
        counts = np.arange(total + fill) < total
        run = _squares(self.model, tuple(buffers))
        sums = torch.zeros_like(weights)
        for start in range(0, total, chunk):
            some = slice(start, start + chunk)
            who = clients[some]
            x, y = _batch(self.samples, who, positions[some], self.data)
            at, counted = (torch.from_numpy(a).to(sums.device) for a in (who, counts[some]))
            inputs = [weights, at, counted, x[:, None], y[:, None], *buffers.values()]
            best = self.compiler.best(("fisher", x.shape), len(sizes), run, inputs, total)
            sums += best(*inputs)
        return sums

    def _most(self, at_once: dict[str, int], numbers: int) -> int:
        """Samples at once that take so many numbers each."""
        most = at_once.get(self.state.weights.device.type, at_once["cpu"])
        return min(MOST_SAMPLES, most // max(1, numbers))


def _squares_of_batches(model: StackedModel, held: tuple[str, ...]) -> Flat:
    def run(weights: Tensor, x: Tensor, y: Tensor, weight: Tensor, *buffers: Tensor) -> Tensor:
        named = dict(zip(held, buffers, strict=True))
        squares = model.squared_gradients(weights, named, x, y, weight)
        sums = torch.zeros_like(weights)
        for name, slot in model.layout.slots.items():
            sums[:, slot.start : slot.stop] = squares[name].reshape(len(weights), -1)
        return sums

    return run


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
