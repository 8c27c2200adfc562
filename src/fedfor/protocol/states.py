"""What clients keep, as files: one for each client and round that it took part in."""

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..errors import FolderError
from ..tensors import flatten, separate, unflatten
from .local import Kept

SEEN = ".seen-"
"""How a file begins by which workers find out whether they see the folder."""


class StateFiles:
    """Any process that sees the folder may read and write them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, client: int, round_: int) -> Kept:
        path = self.path(client, round_)
        try:
            return Kept(round_, unflatten(load_file(path)))
        except (OSError, ValueError, SafetensorError) as error:
            raise FolderError(
                f"the state of client {client} in {path} is lost ({error}); without it the run "
                "would go on with other numbers: run anew into another folder"
            ) from error

    def write(self, client: int, kept: Kept) -> None:
        path = self.path(client, kept.round)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: two processes may write the same at once.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        save_file(separate(flatten(kept.extras)), temporary)
        temporary.replace(path)

    def drop(self, client: int, round_: int) -> None:
        self.path(client, round_).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Take away what was half written when somebody was killed."""
        for left in (*self.folder.glob("*/.*.safetensors.*"), *self.folder.glob(f"{SEEN}*")):
            left.unlink(missing_ok=True)

    def found(self) -> Iterator[tuple[int, int]]:
        """The clients and rounds that there are files of."""
        for path in sorted(self.folder.glob("*/*.safetensors")):
            if (name := re.fullmatch(r"(\d+)-(\d+)", path.stem)) is not None:
                yield int(name[1]), int(name[2])

    def path(self, client: int, round_: int) -> Path:
        return self.folder / f"{client % 256:02x}" / f"{client}-{round_}.safetensors"
