"""Handing out work: to who is idle, again where somebody was lost, twice where somebody is slow."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...errors import FedforError
from .cluster import imported, reason
from .costs import Piece
from .crew import Crew, Member

log = logging.getLogger("fedfor")

T = TypeVar("T")

MOST_TRIES = 4
"""Workers that a slice may be lost with: then it is the slice that ends them."""

SLOW = 1.5, 0.5
"""A slice is given again after so many times what it should take, and so many seconds more."""

UNKNOWN = 60.0
"""Seconds after which one is given again of which nobody knows what it should take."""

TICK = 0.1

SILENT = 30.0
"""Seconds in which whoever is there says so."""

NOTHING = "nothing that was still wanted"

OUT_OF_MEMORY = "low on memory", "OutOfMemory"
"""How Ray tells that it has ended what took too much; where the system does, a second loss of the
same slice tells."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a worker gave for a piece: a report, and references to what stays in the cluster."""

    worker: int
    report: T
    references: tuple[Any, ...]
    seconds: float


@dataclass
class _Open:
    """A piece that nobody has answered yet."""

    piece: Piece
    at: dict[int, float] = field(default_factory=dict)
    """The workers that are at it, and since when."""
    tries: int = 0


Send = Callable[[Member, Piece], Sequence[Any]]
"""Asks a worker for a piece. Gives references: to a report, then to what else there is."""


class Dispatch:
    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.lost: list[str] = []
        """A sentence for each worker that was lost."""
        self.repeated = 0
        """Pieces that were given to a second worker because the first was slow."""
        self._number = 0

    def next_number(self) -> int:
        """By which an order can be called off."""
        self._number += 1
        return self._number

    def settle(self) -> None:
        """Find out who is gone of those who seem idle, and wait a little for those to come."""
        ray = imported()
        for member in self.crew.idle():
            try:
                ray.get(member.actor.here.remote(), timeout=SILENT)
            except ray.exceptions.RayError as error:
                self._lost(member, error, "a part of adding up", 0)
        if not self.crew.members and (awaited := self.crew.awaited):
            ready, _ = ray.wait(awaited, num_returns=1, timeout=TICK)
            for reference in ready:
                self.crew.welcome(reference)
        self.crew.require_some()

    def carry_out(
        self,
        pieces: Sequence[Piece],
        send: Send,
        stop: Callable[[Member, Piece], None],
        what: Callable[[Piece], str],
        in_seconds: bool,
    ) -> dict[Piece, Answer[Any]]:
        """Have all pieces done. The first answer to each counts."""
        ray = imported()
        waiting = {piece: _Open(piece) for piece in pieces}
        queue, answers = list(pieces), dict[Piece, Answer[Any]]()
        asked: dict[Any, tuple[Member, Piece, tuple[Any, ...], float]] = {}
        rates: list[float] = []  # seconds for what costs 1, of what is done already

        def ask(member: Member, piece: Piece) -> None:
            now = time.monotonic()
            first, *others = send(member, piece)
            waiting[piece].at[member.number] = now
            member.busy, asked[first] = first, (member, piece, tuple(others), now)

        while waiting:
            for member in self.crew.idle():
                if (piece := _next(queue, member.number)) is not None:
                    ask(member, piece)
                elif (late := _late(waiting, rates, in_seconds)) is not None:
                    self.repeated += 1
                    log.info("slow: %s; given to another worker too", what(late))
                    ask(member, late)
            busy = [m.busy for m in self.crew.members.values() if m.busy is not None]
            ready, _ = ray.wait([*busy, *self.crew.awaited], num_returns=1, timeout=TICK)
            for reference in ready:
                if reference not in busy:
                    self.crew.welcome(reference)
                    continue
                if reference not in asked:  # of a round that went on without it
                    self._free(reference)
                    continue
                member, piece, others, since = asked.pop(reference)
                member.busy = None
                try:
                    report = ray.get(reference)
                except ray.exceptions.RayError as error:
                    if (still := waiting.get(piece)) is not None:
                        still.at.pop(member.number, None)
                        still.tries += 1
                        self._lost(member, error, what(piece), still.tries)
                        if not still.at:
                            queue.insert(0, piece)
                    else:
                        self._lost(member, error, NOTHING, 0)
                    continue
                if piece not in waiting or getattr(report, "stopped", False):
                    continue
                took = time.monotonic() - since
                rates.append(took / max(piece.cost, 1e-12))
                answers[piece] = Answer(member.number, report, others, took)
                for number in waiting.pop(piece).at:
                    other = self.crew.members.get(number)
                    if other is not None and other is not member:
                        stop(other, piece)
            self.crew.require_some()
        return answers

    def _free(self, reference: Any) -> None:
        """Somebody who was too slow in an earlier round is done, or gone."""
        ray = imported()
        member = next(m for m in self.crew.members.values() if m.busy == reference)
        member.busy = None
        try:
            ray.get(reference)
        except ray.exceptions.RayTaskError:  # it is still there, and nobody wants to know
            return
        except ray.exceptions.RayError as error:
            self._lost(member, error, NOTHING, 0)

    def _lost(self, member: Member, error: Exception, what: str, tries: int) -> None:
        if isinstance(error, imported().exceptions.RayTaskError):  # it is there, but cannot do it
            raise FedforError(f"{what} could not be done: {reason(error)}") from error
        if tries > 1 or any(words in str(error) for words in OUT_OF_MEMORY):
            self.crew.halve()
        where = self.crew.lose(member, error)
        sentence = f"worker {member.number} on {where} was lost, and with it {what}"
        self.lost.append(sentence)
        if tries >= MOST_TRIES:
            raise FedforError(
                f"{sentence}, as {tries - 1} workers before: they may run out of memory there; "
                "lower lanes or training.batch_size, or run fewer workers on a machine"
            ) from error
        log.warning(sentence if what is NOTHING else f"{sentence}; done again elsewhere")


def _next(queue: list[Piece], worker: int) -> Piece | None:
    """Of what nobody is at: what was cut for this worker, else for nobody, else for another."""
    for wanted in (worker, None):
        for place, piece in enumerate(queue):
            if piece.owner == wanted:
                return queue.pop(place)
    return queue.pop(0) if queue else None


def _late(waiting: dict[Piece, _Open], rates: Sequence[float], in_seconds: bool) -> Piece | None:
    """A piece that one worker alone is at, and that takes much longer than it should."""
    rate = min(rates) if rates and not in_seconds else 1.0
    times, more = SLOW if rates or in_seconds else (0.0, UNKNOWN)
    now, worst = time.monotonic(), None
    for piece, still in waiting.items():
        if len(still.at) != 1:
            continue
        over = now - next(iter(still.at.values())) - (times * rate * piece.cost + more)
        if over > 0 and (worst is None or over > worst[0]):
            worst = over, piece
    return None if worst is None else worst[1]
