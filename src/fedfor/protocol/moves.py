"""How the clients of a round have moved: how far each, and how they agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..tensors import Tensors, wide
from .sums import AT_A_TIME, BLOCK

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
        self._memory: Tensor | None = None
        self._sums: Tensors = {}

    @torch.no_grad()
    def add(self, ends: Tensors, weights: Sequence[float] | None, lengths: Tensor | None) -> Tensor:
        """Count clients in, by their weights or alike. Gives back how far each has moved, which
        the caller may know already."""
        scale = None if weights is None else torch.tensor(weights).to(self._origin)
        clients, found = len(ends[self._names[0]]), []
        for first in range(0, clients, self._at_once):
            some = slice(first, min(first + self._at_once, clients))
            rows = self._room(some.stop - first)
            self._move([ends[name][some] for name in self._names], rows)
            found.append(_lengths(rows) if lengths is None else lengths[some])
            self._count_in(rows, found[-1], None if scale is None else scale[some])
        if clients > 1:  # other runs have their turn before this one's next
            self._memory = None
        return _end_to_end(found)

    def take(self) -> Tensors:
        """The sums so far, for whoever adds them up; the next ones begin anew."""
        taken, self._sums = self._sums, {}
        return taken

    def _room(self, wanted: int) -> Tensor:
        """Rows for the moves of some clients. Their memory is used again: a CPU's cache has it."""
        if self._memory is None or len(self._memory) < wanted:
            self._memory = self._origin.new_empty(wanted, len(self._origin))
        return self._memory[:wanted]

    def _move(self, ends: Sequence[Tensor], rows: Tensor) -> None:
        if len(ends) == 1 and ends[0].ndim == 2:
            torch.sub(ends[0], self._origin, out=rows)
        else:
            torch.cat([end.reshape(len(rows), -1) for end in ends], dim=1, out=rows)
            rows.sub_(self._origin)

    def _count_in(self, moves: Tensor, lengths: Tensor, weights: Tensor | None) -> None:
        """Add up lengths, moves made 1 long, and weights that went against the last move."""
        shares = lengths.reciprocal() if weights is None else weights / lengths
        shares = shares.nan_to_num(posinf=0.0)  # a client that did not move
        found = {
            "lengths": _total(lengths, weights),
            "unit": _weighted_sum(moves, shares.to(moves)),
        }
        if self._last is not None:
            opposing = moves.mul_(self._last).gt_(0)
            alike = weights is None
            found["opposing"] = opposing.sum() if alike else _total(opposing.sum(dim=1), weights)
        if not self._sums:
            self._sums = {name: part.to(wide(part)) for name, part in found.items()}
            return
        for name, part in found.items():
            self._sums[name] += part

    @torch.no_grad()
    def agreement(self, mean: Tensors, total: float, sums: Tensors | None = None) -> Agreement:
        """From where the clients ended on average, the sum of their weights, and their sums, which
        are those that were not taken unless they are given."""
        sums = self._sums if sums is None else sums
        unit, opposing = sums["unit"], sums.get("opposing")
        move = (self._joined(mean) - self._origin).to(unit)
        length = torch.linalg.vector_norm(move)
        together = length * total
        return Agreement(
            torch.where(length == 0, 1.0, sums["lengths"] / together),
            (unit.dot(move) / together).clamp(-1, 1),  # NaN where the length is 0
            torch.full_like(length, math.nan)
            if opposing is None
            else opposing / (total * len(move)),
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
