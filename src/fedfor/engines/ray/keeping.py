"""What clients keep: with the driver, or on a disk that workers may see."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from ...protocol import Kept
from ...protocol.states import StateFiles
from ...tensors import copies
from .cluster import imported
from .costs import Piece
from .dispatch import Answer
from .merge import LostSumsError
from .orders import Report
from .parcel import unpack


class States(Protocol):
    """Where clients' state lies between rounds, as the driver sees it."""

    def get(self, client: int) -> Kept | None: ...

    def put(self, client: int, kept: Kept) -> None: ...


@runtime_checkable
class StatesOnDisk(States, Protocol):
    """Those that workers may read and write for themselves."""

    files: StateFiles

    def latest(self, client: int) -> int: ...

    def noted(self, client: int, round_: int, nbytes: int) -> None: ...


class Keeping:
    """What the clients of a round keep: safe before sums are added up, noted once these stand."""

    def __init__(self, states: States | None, round_: int) -> None:
        self._states, self._round = states, round_
        self._in_memory: dict[Piece, dict[int, Kept]] = {}
        self._on_disk: dict[Piece, list[tuple[int, int]]] = {}

    def collect(self, answers: Mapping[Piece, Answer[Report]]) -> None:
        """Fetch what workers could not put on the disk themselves, before it can be lost."""
        if self._states is None:
            return
        ray, lost = imported(), []
        for place, piece in enumerate(_in_order(answers)):
            if piece in self._in_memory or piece in self._on_disk:
                continue
            try:
                parcel = ray.get(answers[piece].references[1])
            except ray.exceptions.RayError:
                lost.append(place)
            else:
                self._keep(piece, {} if parcel is None else unpack(parcel))
        if lost:
            raise LostSumsError(lost)

    def _keep(self, piece: Piece, kept: Mapping[int, Kept]) -> None:
        """Out of the memory that is shared with workers, so that this is free again."""
        if isinstance(self._states, StatesOnDisk):
            for client, state in kept.items():
                self._states.files.write(client, state)
            self._on_disk[piece] = [(client, state.nbytes) for client, state in kept.items()]
        else:
            self._in_memory[piece] = {client: _copied(state) for client, state in kept.items()}

    def commit(self, answers: Mapping[Piece, Answer[Report]]) -> None:
        """It stands now: the clients' replies have been used."""
        if self._states is None:
            return
        for piece in _in_order(answers):
            if isinstance(self._states, StatesOnDisk):
                for client, nbytes in (*answers[piece].report.kept, *self._on_disk[piece]):
                    self._states.noted(client, self._round, nbytes)
            else:
                for client, state in self._in_memory[piece].items():
                    self._states.put(client, state)


def _in_order(answers: Mapping[Piece, Any]) -> list[Piece]:
    return sorted(answers, key=lambda piece: piece.first)


def _copied(kept: Kept) -> Kept:
    return replace(kept, extras={extra: copies(t) for extra, t in kept.extras.items()})
