"""Workers whose answers come when a script says, by a clock that nobody waits for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from fedfor.engines.ray import crew as crew_module
from fedfor.engines.ray import dispatch as dispatch_module
from fedfor.engines.ray.costs import Piece
from fedfor.engines.ray.crew import Crew, Member
from fedfor.engines.ray.dispatch import Answer, Dispatch
from fedfor.engines.ray.worker import About

NEVER = 1e9
LONG = 1e3
"""Seconds after which something has been waited for in vain."""


class Gone(Exception):  # noqa: N818
    """A worker that is lost: what Ray calls a RayError."""


class Broken(Gone):
    """A worker that is there and cannot do it: a RayTaskError."""


@dataclass(eq=False)
class Reference:
    due: float
    value: object


@dataclass(frozen=True)
class Report:
    by: int
    stopped: bool = False


Script = Callable[[int, Piece], tuple[float, Exception | Report | None]]
"""After how many seconds a worker answers for a piece, and with what; None: as it should."""


@dataclass
class Scripted:
    """In place of Ray, as far as handing out work has to do with it."""

    script: Script
    now: float = 0.0
    asked: list[tuple[float, int, Piece]] = field(default_factory=list)
    stopped: list[tuple[float, int, Piece]] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    start: float = 0.0
    """Seconds until a new worker is ready."""
    exceptions: ClassVar = SimpleNamespace(RayError=Gone, RayTaskError=Broken)

    def wait(
        self, references: Sequence[Reference], num_returns: int, timeout: float
    ) -> tuple[list[Reference], list[Reference]]:
        assert self.now < LONG, "waited for in vain"
        first = min(references, key=lambda r: r.due, default=None)
        if first is None or first.due > self.now + timeout:
            self.now += timeout
            return [], list(references)
        self.now = max(self.now, first.due)
        return [first], [r for r in references if r is not first]

    def get(self, reference: Reference, timeout: float = NEVER) -> object:
        self.now += min(timeout, max(0.0, reference.due - self.now))
        assert self.now < LONG, "waited for in vain"
        if self.now < reference.due:
            raise Gone("timed out")
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def kill(self, actor: "Actor") -> None:
        self.killed.append(actor.number)

    def monotonic(self) -> float:
        return self.now

    def send(self, member: Member, piece: Piece) -> Sequence[Any]:
        self.asked.append((round(self.now, 6), member.number, piece))
        after, value = self.script(member.number, piece)
        value = Report(member.number) if value is None else value
        return [Reference(self.now + after, value), "sums", "states"]

    def stop(self, member: Member, piece: Piece) -> None:
        self.stopped.append((round(self.now, 6), member.number, piece))


@dataclass
class Actor:
    """Says that it is here, after so many seconds."""

    ray: Scripted
    number: int
    silent: float = 0.01

    @property
    def here(self) -> "Actor":
        return self

    def remote(self) -> Reference:
        return Reference(self.ray.now + self.silent, None)


class ScriptedCrew(Crew):
    def __init__(self, ray: Scripted, workers: int) -> None:
        super().__init__(cast("Any", None), workers, gpus=False)
        self.ray = ray
        self.hired = -workers
        self.unable: Exception | None = None
        """Why no more workers can be started."""
        for _ in range(workers):
            self._hire()
            self.welcome(next(iter(self._starting)))
        ray.start = 1.0

    def _hire(self) -> None:
        number, self._next = self._next, self._next + 1
        self.hired += 1
        about = About("node", f"host-{number}", 1000 + number, sees=False, memory=1)
        reference = Reference(self.ray.now + self.ray.start, self.unable or about)
        self._starting[reference] = Member(number, Actor(self.ray, number))
        self._last_news = self.ray.now


class Bench:
    """A dispatch, its crew and its cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workers: int, script: Script) -> None:
        self.ray = Scripted(script)
        for module in (dispatch_module, crew_module):
            monkeypatch.setattr(module, "imported", lambda: self.ray)
            monkeypatch.setattr(module, "time", self.ray)
        self.crew = ScriptedCrew(self.ray, workers)
        self.dispatch = Dispatch(self.crew)

    def carry_out(
        self, pieces: Sequence[Piece], *, in_seconds: bool = True
    ) -> dict[Piece, Answer[Report]]:
        ray = self.ray
        return self.dispatch.carry_out(
            pieces, ray.send, ray.stop, lambda p: f"leaves from {p.first} on", in_seconds
        )

    @property
    def order(self) -> list[tuple[int, int]]:
        """Who was given what, one after another."""
        return [(worker, piece.first) for _, worker, piece in self.ray.asked]
