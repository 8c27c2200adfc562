"""Commands as processes of their own, which end with the test."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..processes import HANG, wait_until


class Command:
    """A command at work. What it says goes to a file, so that nobody waits for anybody."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    def said(self) -> list[str]:
        """Its lines, as far as they are whole."""
        return [line[:-1] for line in self._log.read_text().splitlines(True) if line.endswith("\n")]

    def end(self, how: int | None = None) -> int:
        """Its exit code, once it has ended by itself, or by this signal."""
        if how is not None:
            self.process.send_signal(how)
        return self.process.wait(HANG)

    def address(self) -> str:
        """Where a watching command says that its page is."""
        (line,) = wait_until(
            lambda: [t for t in self.said() if " is shown at http://" in t],
            "it says where its page is",
            self.process,
        )
        return str(line.split(" is shown at ")[1].split()[0])


@contextmanager
def fedfor(*words: str | Path, cwd: Path, **told: str) -> Iterator[Command]:
    """With what is told in its environment."""
    log = cwd / f"{words[0]}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedfor.cli", *map(str, words)],
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **told},
        )
    try:
        yield Command(process, log)
    finally:
        process.kill()
        process.wait(HANG)


def live(url: str, seen: str = "") -> dict[str, Any]:
    """What the page would be told; nothing where nothing is new."""
    with urllib.request.urlopen(f"{url}data.json?seen={seen}", timeout=HANG) as answer:
        found: dict[str, Any] = {} if answer.status == 204 else json.loads(answer.read())["live"]
        return found
