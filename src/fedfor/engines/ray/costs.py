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

WORTH_SPLITTING = 0.5
"""Seconds that a share must take for that: each slice takes some milliseconds of its own."""

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class Took:
    """What the clients of a slice took on a worker, and the sizes that were known of them."""

    worker: int
    clients: Sequence[int]
    sizes: Sequence[float]
    seconds: Sequence[float]


@dataclass(frozen=True)
class Piece:
    """The leaves of a job from `first` to before `last`, and what they should cost."""

    job: int
    first: int
    last: int
    cost: float
    owner: int | None = None
    """The worker for whom it was cut."""


class Ledger:
    """Seconds of clients and speeds of workers, learned from what rounds took.

    It decides where clients are trained, never what comes of it: sums do not depend on slices.
    """

    def __init__(self, speeds: dict[int, float] | None = None) -> None:
        self._own: OrderedDict[int, float] = OrderedDict()
        self._rate: float | None = None
        """Seconds for a client of size 1, on a worker of speed 1."""
        self._speeds = {} if speeds is None else speeds
        """Runs that share workers share what is known of them."""

    @property
    def in_seconds(self) -> bool:
        """Whether what is expected is in seconds, and not only in proportion."""
        return self._rate is not None

    def expect(self, clients: Sequence[int], sizes: Sequence[float]) -> Costs:
        rate = 1.0 if self._rate is None else self._rate
        return np.array([self._own.get(k, rate * n) for k, n in zip(clients, sizes, strict=True)])

    def speed(self, worker: int) -> float:
        return self._speeds.get(worker, 1.0)

    def learn(self, slices: Sequence[Took]) -> None:
        """What the clients of a round took."""
        slices = [took for took in slices if sum(took.seconds) > 0]
        if not slices:
            return
        if self._rate is not None:
            self._learn_speeds(slices)
        at_speed_1 = sum(sum(took.seconds) * self.speed(took.worker) for took in slices)
        self._rate = _mixed(self._rate, at_speed_1 / sum(sum(took.sizes) for took in slices))
        for took in slices:
            for client, second in zip(took.clients, took.seconds, strict=True):
                mixed = _mixed(self._own.pop(client, None), second * self.speed(took.worker))
                self._own[client] = mixed
        while len(self._own) > REMEMBERED:
            self._own.popitem(last=False)

    def _learn_speeds(self, slices: Sequence[Took]) -> None:
        """Of workers beside each other: what all took longer or less is the clients' cost."""
        expected, seconds = dict[int, float](), dict[int, float]()
        for took in slices:
            cost = float(self.expect(took.clients, took.sizes).sum())
            expected[took.worker] = expected.get(took.worker, 0.0) + cost
            seconds[took.worker] = seconds.get(took.worker, 0.0) + sum(took.seconds)
        at_speed_1 = sum(second * self.speed(worker) for worker, second in seconds.items())
        off = at_speed_1 / sum(expected.values())
        for worker, second in seconds.items():
            now = off * expected[worker] / second
            self._speeds[worker] = _mixed(self._speeds.get(worker), now)


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else (1 - NEWS) * before + NEWS * now


def cut(
    jobs: Sequence[Costs], workers: Sequence[int], speeds: Sequence[float], split: bool
) -> list[Piece]:
    """Slices of the leaves of all jobs, for these workers, that should take equally long.

    With `split`, a part of each is left for whoever is done first: those come last in the list.
    """
    line = _Line(jobs, len(workers))
    own: list[Piece] = []
    rest: list[Piece] = []
    shares = [0.0, *(np.cumsum(speeds) / np.sum(speeds)).tolist()]
    borders = [line.at(share) for share in shares]
    borders[-1] = line.leaves
    for place, worker in enumerate(workers):
        first, last = borders[place], borders[place + 1]
        if not split or last - first < 4 * line.grain:
            own += line.pieces(first, last, worker)
            continue
        low, high = shares[place], shares[place + 1]
        head = max(first + 1, min(last, line.at(low + HEAD * (high - low))))
        middle = max(head, min(last, line.at(low + (1 + HEAD) / 2 * (high - low))))
        own += line.pieces(first, head, worker)
        rest += line.pieces(head, middle, None) + line.pieces(middle, last, None)
    return own + sorted(rest, key=lambda piece: -piece.cost)


class _Line:
    """The leaves of all jobs, one after another."""

    def __init__(self, jobs: Sequence[Costs], workers: int) -> None:
        self._costs = np.concatenate([[0.0], np.cumsum(np.concatenate([[], *jobs]))])
        self._starts = np.concatenate([[0], np.cumsum([len(costs) for costs in jobs])])
        self.leaves = len(self._costs) - 1
        self.grain = 1
        # Borders are at multiples of a power of two, so that a slice's sum has few parts.
        while self.leaves // (2 * self.grain) >= 64 * workers:
            self.grain *= 2

    def at(self, share: float) -> int:
        """The border nearest to this share of all costs."""
        found = int(np.abs(self._costs - share * self._costs[-1]).argmin())
        start = int(self._starts[self._starts <= found][-1])
        # Not past the job's end: the next border may be there, and borders must be in order.
        end = int(min(self._starts[self._starts > found], default=self.leaves))
        return min(end, start + round((found - start) / self.grain) * self.grain)

    def pieces(self, first: int, last: int, owner: int | None) -> list[Piece]:
        """One for each job that the leaves between two borders are of."""
        found = []
        for job in range(len(self._starts) - 1):
            start, end = int(self._starts[job]), int(self._starts[job + 1])
            low, high = max(first, start), min(last, end)
            if high > low:
                cost = float(self._costs[high] - self._costs[low])
                found.append(Piece(job, low - start, high - start, cost, owner))
        return found
