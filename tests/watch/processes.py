"""Commands as processes of their own, which end with the test."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONG = 90.0
"""Seconds that nothing here takes, even on a busy machine."""


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
        return self.process.wait(LONG)

    def address(self) -> str:
        """Where a watching command says that its page is."""
        (line,) = wait_until(lambda: [t for t in self.said() if " is shown at http://" in t])
        return str(line.split(" is shown at ")[1].split()[0])


@contextmanager
def fedfor(*words: str | Path, cwd: Path) -> Iterator[Command]:
    log = cwd / f"{words[0]}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedfor.cli", *map(str, words)],
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            # a shell's background jobs, such as a test run may be, ignore SIGINT and pass that on
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        yield Command(process, log)
    finally:
        process.kill()
        process.wait(LONG)


def wait_until(good: Callable[[], Any]) -> Any:
    """What it says, once it says something."""
    deadline = time.monotonic() + LONG
    while not (found := good()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def live(url: str, seen: str = "") -> dict[str, Any]:
    """What the page would be told; nothing where nothing is new."""
    with urllib.request.urlopen(f"{url}data.json?seen={seen}", timeout=LONG) as answer:
        found: dict[str, Any] = {} if answer.status == 204 else json.loads(answer.read())["live"]
        return found
