"""Work in a fresh process: asked for with one JSON object, answered with another.

Its memory is then its own, and whatever happens to it is one sentence to whoever asked.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FedforError
from ..importing import told
from .folder import write_json

Work = Callable[[dict[str, Any], Path], dict[str, Any]]
"""From what is asked, with a folder to write to, to the answer."""

PROBLEM = "problem"
"""In an answer: why there is no other."""

PATIENCE = 60.0
"""Seconds that a process has to end by itself, and to let its workers go."""


def ask(module: str, asked: dict[str, Any], limit: float) -> dict[str, Any]:
    """What `python -m module` answers within so many seconds."""
    with tempfile.TemporaryDirectory(prefix="fedfor-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        write_json(folder / "asked.json", asked)
        with (folder / "stderr.txt").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", module, scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,  # Ctrl-C is for us; it is told once, when the pipe closes
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                return {PROBLEM: f"it took longer than {limit:g} s"}
            finally:
                _end(process)
        return _answer(folder, process.returncode)


def answer(work: Work) -> None:
    """The other side: do the work that was asked for, for as long as somebody wants it."""
    folder = Path(sys.argv[1])
    # Background jobs of a shell ignore SIGINT, and so do the processes that they start. This one
    # must not: its own thread ends it with that signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    asked = json.loads((folder / "asked.json").read_text(encoding="utf-8"))
    try:
        found = work(asked, folder)
    except FedforError as error:
        found = {PROBLEM: str(error)}
    except Exception as error:  # whatever one's own model may raise
        found = {PROBLEM: told(error)}
    write_json(folder / "answer.json", found)


def _leave_with_parent() -> None:
    """Nothing is ever written to us; when the pipe closes, nobody waits for the answer."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)  # as tidily as at Ctrl-C
    time.sleep(PATIENCE)
    os._exit(1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answer(folder: Path, code: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {PROBLEM: _why(code, (folder / "stderr.txt").read_text(errors="replace"))}
    return found


def _why(code: int, stderr: str) -> str:
    if code == -signal.SIGABRT or code >= 0:
        last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
        return f"its process ended with code {code}" + (f": {last.strip()[:200]}" if last else "")
    hint = ", as it is when memory runs out" if code == -9 else ""
    return f"its process was killed by signal {-code}{hint}"
