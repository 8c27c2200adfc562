"""How the clients of a round have moved: how far each, and how they agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..tensors import Tensors, wide
from .sums import AT_A_TIME, BLOCK

FEW = 8
"""Clients that come one by one are counted in together, so many at once."""

NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**24}
"""Numbers in the moves that are looked at together: on a CPU few enough for its cache."""


@dataclass(frozen=True)
class Agreement:
    """How the clients of a round agree, on their device: nobody waits for it. NaN: there is none.

    A client counts as it does in the average.
    """

    disagreement: Tensor
    """The mean length of a client's move over the length of their mean move. 1: all are alike."""
    cosine: Tensor
    """The mean cosine between a client's move and the mean move; of one that did not move, 0."""
    opposing: Tensor
    """The share of weights that a client moved against the last global move, those that FedFOR's
    penalty acts on; the mean over clients. There is none before the second round."""

    @property
    def tensors(self) -> list[Tensor]:
        return [self.disagreement, self.cosine, self.opposing]

    @staticmethod
    def record(numbers: Sequence[float]) -> dict[str, float | None]:
        """The tensors, once they were read, as the record of a round has them."""
        names = [field.name for field in fields(Agreement)]
        return {n: None if math.isnan(x) else x for n, x in zip(names, numbers, strict=True)}


class Moves:
    """What agreement is told from, summed as replies come: the moves of a few are held, at most.

    `start` is the model that went down, `last` the global move before it, w(t-2) - w(t-1).
    """

    def __init__(self, start: Tensors, last: Tensors | None) -> None:
        self._names = list(start)
        self._origin = self._joined(start)
        self._last = None if last is None else self._joined(last)
        device, width = self._origin.device, len(self._origin)
        most = NUMBERS_AT_ONCE.get(device.type, NUMBERS_AT_ONCE["cpu"]) // max(1, width)
        self._at_once = max(1, min(AT_A_TIME, most))
        self._rows: Tensor | None = None
        self._held: list[tuple[Tensor, ...]] = []
        self._sums: list[Tensor] = []

    @torch.no_grad()
    def add(self, ends: Tensors, weights: Sequence[float] | None, lengths: Tensor | None) -> Tensor:
        """Count clients in, by their weights or alike. Gives back how far each has moved, which
        the caller may know already."""
        scale = None if weights is None else torch.tensor(weights).to(self._origin)
        clients, first, found = len(ends[self._names[0]]), 0, []
        while first < clients:
            rows = self._room(clients - first)
            some = slice(first, first + len(rows))
            self._move([ends[name][some] for name in self._names], rows)
            found.append(_lengths(rows) if lengths is None else lengths[some])
            self._held.append((found[-1],) if scale is None else (found[-1], scale[some]))
            first = some.stop
        if clients >= FEW:  # other runs have their turn before this one's next
            self._count_in()
            self._rows = None
        return _end_to_end(found)

    def _room(self, wanted: int) -> Tensor:
        """Rows for the moves of some clients, of the wanted number or as many as there can be.
        Their memory is used again and again: a CPU's cache has it."""
        if self._rows is None:
            height = min(self._at_once, max(wanted, FEW))
            self._rows = self._origin.new_empty(height, len(self._origin))
        taken = sum(len(lengths) for lengths, *_ in self._held)
        if taken == len(self._rows):
            self._count_in()
            taken = 0
        return self._rows[taken : taken + wanted]

    def _move(self, ends: Sequence[Tensor], rows: Tensor) -> None:
        if len(ends) == 1 and ends[0].ndim == 2:
            torch.sub(ends[0], self._origin, out=rows)
        else:
            torch.cat([end.reshape(len(rows), -1) for end in ends], dim=1, out=rows)
            rows.sub_(self._origin)

    def _count_in(self) -> None:
        """Add up lengths, moves made 1 long, and weights that went against the last move."""
        if self._rows is None or not self._held:
            return
        lengths, *given = (_end_to_end(parts) for parts in zip(*self._held, strict=True))
        weights = given[0] if given else None
        moves, self._held = self._rows[: len(lengths)], []
        shares = lengths.reciprocal() if weights is None else weights / lengths
        shares = shares.nan_to_num(posinf=0.0)  # a client that did not move
        found = [_total(lengths, weights), _weighted_sum(moves, shares.to(moves))]
        if self._last is not None:
            opposing = moves.mul_(self._last).gt_(0)
            alike = weights is None
            found.append(opposing.sum() if alike else _total(opposing.sum(dim=1), weights))
        if not self._sums:
            self._sums = [part.to(wide(part)) for part in found]
            return
        for total, part in zip(self._sums, found, strict=True):
            total += part

    @torch.no_grad()
    def agreement(self, mean: Tensors, total: float) -> Agreement:
        """From where the clients ended on average, and the sum of their weights."""
        self._count_in()
        lengths, unit, *opposing = self._sums
        move = (self._joined(mean) - self._origin).to(unit)
        length = torch.linalg.vector_norm(move)
        together = length * total
        return Agreement(
            torch.where(length == 0, 1.0, lengths / together),
            (unit.dot(move) / together).clamp(-1, 1),  # NaN where the length is 0
            opposing[0] / (total * len(move)) if opposing else torch.full_like(length, math.nan),
        )

    def _joined(self, tensors: Tensors) -> Tensor:
        """All numbers in one row, at least in float32."""
        parts = [tensors[name] for name in self._names]
        row = _end_to_end([part if part.ndim == 1 else part.reshape(-1) for part in parts])
        return row if row.element_size() >= 4 else row.float()


def _end_to_end(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _total(numbers: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return numbers.sum(dtype=wide(numbers))
    return numbers.to(wide(numbers)).dot(weights.to(wide(numbers)))


def _lengths(rows: Tensor) -> Tensor:
    """Of each row. A CPU, which adds up squares in float32, would lose digits in a long one."""
    lengths: Tensor
    if rows.device.type != "cpu" or rows.shape[1] <= BLOCK:
        lengths = torch.linalg.vector_norm(rows, dim=1)
    else:
        blocks: Sequence[Tensor] = rows.split(BLOCK, dim=1)  # type: ignore[no-untyped-call]
        parts = torch.stack([torch.linalg.vector_norm(block, dim=1) for block in blocks])
        lengths = torch.linalg.vector_norm(parts.to(wide(parts)), dim=0)
    return lengths


def _weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    if rows.device.type == "cpu":
        return weights @ rows
    # Not a product of matrices, which a GPU may do in fewer digits than float32 has.
    return (weights[:, None] * rows).sum(dim=0, dtype=wide(rows))
