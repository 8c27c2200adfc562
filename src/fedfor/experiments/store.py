"""Where clients' state lies between their rounds."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ..protocol import Kept
from ..protocol.states import StateFiles


class Store(Protocol):
    def get(self, client: int) -> Kept | None: ...

    def put(self, client: int, kept: Kept) -> None: ...

    @property
    def nbytes(self) -> int:
        """The bytes that all clients together keep."""
        ...

    def __len__(self) -> int:
        """How many clients keep something."""
        ...


class MemoryStore:
    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        self.nbytes = 0

    def get(self, client: int) -> Kept | None:
        return self._kept.get(client)

    def put(self, client: int, kept: Kept) -> None:
        before = self._kept.get(client)
        self.nbytes += kept.nbytes - (before.nbytes if before else 0)
        self._kept[client] = kept

    def __len__(self) -> int:
        return len(self._kept)


class DiskStore:
    """One file for each client and round it took part in, as far back as a resume may go.

    Memory holds a few numbers for each client seen, not its tensors. A file of a round later than
    the one resumed from belongs to work that was lost, and is deleted.
    """

    def __init__(self, folder: Path, resumed_from: int = 0, oldest_checkpoint: int = 0) -> None:
        self.files = StateFiles(folder)
        self.nbytes = 0
        self._rounds: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._oldest_checkpoint = oldest_checkpoint
        self.files.tidy()
        for client, round_ in self.files.found():
            if round_ > resumed_from:
                self.files.drop(client, round_)
            else:
                self._rounds.setdefault(client, []).append(round_)
        for client, rounds in self._rounds.items():
            rounds.sort()
            self._count(client, self.files.read(client, rounds[-1]).nbytes)

    def get(self, client: int) -> Kept | None:
        round_ = self.latest(client)
        return self.files.read(client, round_) if round_ else None

    def latest(self, client: int) -> int:
        """The last round that a client kept something from; 0 if there is none."""
        return self._rounds[client][-1] if client in self._rounds else 0

    def put(self, client: int, kept: Kept) -> None:
        self.files.write(client, kept)
        self.noted(client, kept.round, kept.nbytes)

    def noted(self, client: int, round_: int, nbytes: int) -> None:
        """Take to the books what somebody has written."""
        rounds = self._rounds.setdefault(client, [])
        if round_ not in rounds:
            rounds.append(round_)
        self._count(client, nbytes)
        self._drop(client, self._unreachable(rounds))

    def checkpointed(self, oldest: int) -> None:
        """Tell the store the oldest round that a resume may still go back to."""
        self._oldest_checkpoint = oldest

    def __len__(self) -> int:
        return len(self._rounds)

    def _unreachable(self, rounds: list[int]) -> list[int]:
        reachable_from = [r for r in rounds if r <= self._oldest_checkpoint]
        return reachable_from[:-1]

    def _drop(self, client: int, rounds: Iterable[int]) -> None:
        for round_ in rounds:
            self.files.drop(client, round_)
            self._rounds[client].remove(round_)

    def _count(self, client: int, size: int) -> None:
        self.nbytes += size - self._sizes.get(client, 0)
        self._sizes[client] = size
