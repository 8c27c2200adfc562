"""Where clients' state lies between their rounds."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..errors import FolderError
from ..protocol import Kept
from ..tensors import flatten, separate, unflatten


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
        self.folder = folder
        self.nbytes = 0
        self._rounds: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._oldest_checkpoint = oldest_checkpoint
        for path in sorted(folder.glob("*/*.safetensors")):
            if (found := re.fullmatch(r"(\d+)-(\d+)", path.stem)) is None:
                continue
            client, round_ = int(found[1]), int(found[2])
            if round_ > resumed_from:
                path.unlink()
            else:
                self._rounds.setdefault(client, []).append(round_)
        for client, rounds in self._rounds.items():
            rounds.sort()
            self._count(client, self._load(client).nbytes)

    def get(self, client: int) -> Kept | None:
        return self._load(client) if client in self._rounds else None

    def put(self, client: int, kept: Kept) -> None:
        path = self._path(client, kept.round)
        path.parent.mkdir(parents=True, exist_ok=True)
        # No temporary name: a file cut short is of a round without a checkpoint, see above.
        save_file(separate(flatten(kept.extras)), path)
        rounds = self._rounds.setdefault(client, [])
        if kept.round not in rounds:
            rounds.append(kept.round)
        self._count(client, kept.nbytes)
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
            self._path(client, round_).unlink()
            self._rounds[client].remove(round_)

    def _count(self, client: int, size: int) -> None:
        self.nbytes += size - self._sizes.get(client, 0)
        self._sizes[client] = size

    def _load(self, client: int) -> Kept:
        path = self._path(client, self._rounds[client][-1])
        try:
            return Kept(self._rounds[client][-1], unflatten(load_file(path)))
        except (OSError, ValueError, SafetensorError) as error:
            raise FolderError(
                f"the state of client {client} in {path} is lost ({error}); without it the run "
                "would go on with other numbers: run anew into another folder"
            ) from error

    def _path(self, client: int, round_: int) -> Path:
        return self.folder / f"{client % 256:02x}" / f"{client}-{round_}.safetensors"
