"""What clients cost, as measured, and slices that take equally long."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 100_000
"""Clients whose own cost is kept. Of larger populations hardly anyone comes twice."""

NEWS = 0.5
"""How much the last measurement counts against those before."""

HEAD = 0.75
"""The part of a worker's share that is its own. Whoever is done first takes of the rest."""

WORTH_SPLITTING = 0.1
"""Seconds that a share must take for that: each slice takes some time of its own."""

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """The leaves from `first` to before `last`, what they should cost, and for whom they are cut."""

    first: int
    last: int
    cost: float
    owner: int | None = None


class Ledger:
    """Seconds of clients and speeds of workers, learned from what rounds took.

    It decides where clients are trained, never what comes of it: sums do not depend on slices.
    """

    def __init__(self) -> None:
        self._own: OrderedDict[int, float] = OrderedDict()
        self._rate: float | None = None
        """Seconds for a client of size 1, on a worker of speed 1."""
        self._speeds: dict[int, float] = {}

    @property
    def in_seconds(self) -> bool:
        """Whether what is expected is in seconds, and not only in proportion."""
        return self._rate is not None

    def expect(self, clients: Sequence[int], sizes: Sequence[float]) -> Costs:
        rate = 1.0 if self._rate is None else self._rate
        return np.array([self._own.get(k, rate * n) for k, n in zip(clients, sizes, strict=True)])

    def speed(self, worker: int) -> float:
        return self._speeds.get(worker, 1.0)

    def learn(
        self, worker: int, clients: Sequence[int], sizes: Sequence[float], seconds: Sequence[float]
    ) -> None:
        """What each client took on this worker."""
        expected, took = self.expect(clients, sizes), sum(seconds)
        if took <= 0:
            return
        if self._rate is not None:
            speed = float(expected.sum()) / took
            self._speeds[worker] = _mixed(self._speeds.get(worker), speed)
        at_speed_1 = took * self.speed(worker)
        self._rate = _mixed(self._rate, at_speed_1 / sum(sizes))
        for client, second in zip(clients, seconds, strict=True):
            mixed = _mixed(self._own.pop(client, None), second * self.speed(worker))
            self._own[client] = mixed
        while len(self._own) > REMEMBERED:
            self._own.popitem(last=False)


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else (1 - NEWS) * before + NEWS * now


def cut(costs: Costs, workers: Sequence[int], speeds: Sequence[float], split: bool) -> list[Piece]:
    """Slices of leaves for these workers that should take equally long.

    With `split`, a part of each is left for whoever is done first: those come last in the list.
    """
    leaves = len(costs)
    ends = np.concatenate([[0.0], np.cumsum(costs)])
    grain = _grain(leaves, len(workers))

    def at(share: float) -> int:
        """The border nearest to this share of all costs."""
        found = int(np.abs(ends - share * ends[-1]).argmin())
        return min(leaves, round(found / grain) * grain)

    def piece(first: int, last: int, owner: int | None) -> list[Piece]:
        cost = float(ends[last] - ends[first])
        return [Piece(first, last, cost, owner)] if last > first else []

    own: list[Piece] = []
    rest: list[Piece] = []
    shares = np.concatenate([[0.0], np.cumsum(speeds) / np.sum(speeds)])
    borders = [at(share) for share in shares]
    borders[-1] = leaves
    for place, worker in enumerate(workers):
        first, last = borders[place], borders[place + 1]
        if not split or last - first < 4 * grain:
            own += piece(first, last, worker)
            continue
        low, high = shares[place], shares[place + 1]
        head = max(first + grain, min(last, at(low + HEAD * (high - low))))
        middle = max(head, min(last, at(low + (1 + HEAD) / 2 * (high - low))))
        own += piece(first, head, worker)
        rest += piece(head, middle, None) + piece(middle, last, None)
    return own + sorted(rest, key=lambda piece: -piece.cost)


def _grain(leaves: int, workers: int) -> int:
    """Borders are at multiples of a power of two, so that a slice's sum has few parts."""
    grain = 1
    while leaves // (2 * grain) >= 64 * workers:
        grain *= 2
    return grain
