"""The folder of a cluster of our own: gone with it, or when the next one comes."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "fedfor-ray-"
LOCK = "lock"

SHORT = "/tmp" if os.name == "posix" else None
"""Where paths stay short, as those of the sockets that are put there must."""


class Temporary:
    """Locked for as long as its process lives, so that others can tell that it is in use."""

    def __init__(self) -> None:
        where = os.environ.get("RAY_TMPDIR", SHORT)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        self._lock = FileLock(self.path / LOCK)
        self._lock.acquire()
        _clear(self.path.parent)

    def close(self) -> None:
        self._lock.release()
        shutil.rmtree(self.path, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Take away what processes have left behind that were killed."""
    for left in folder.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(Timeout, OSError), FileLock(left, timeout=0):
            shutil.rmtree(left.parent, ignore_errors=True)
