"""Trackers beside a run: each in a process of its own that reads the run's folder."""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec

from ..errors import DivergedError

BOOT = (
    "import json, sys; job = json.loads(sys.stdin.readline()); sys.path[:] = job['path']; "
    "from fedfor.tracking.process import work; work(job)"
)
"""What the interpreter of a tracker is started with. After its job it is told only of the end."""

DONE = "done"
"""What it answers in the end. All else that it says is why it failed."""

PATIENCE = 30.0
"""Seconds that trackers get after the end of a run."""

HURRIED = 15.0
"""After an interrupt or an error."""

P = ParamSpec("P")

_logger = logging.getLogger(__name__)


class Tracking:
    """Tells trackers of runs, which go on whatever becomes of the trackers.

    A run is a table with its `folder`, and if need be a `name`, a `group`, a `config`, and `done`
    where nothing will be added to it.
    """

    def __init__(
        self, trackers: Sequence[str], runs: Sequence[Mapping[str, Any]], again: str = ""
    ) -> None:
        self.trackers, self.runs, self.again = trackers, runs, again
        self._followers: list[_Follower] = []

    def __enter__(self) -> "Tracking":
        for name in self.trackers:
            try:
                self._followers.append(_Follower(name, self.runs))
            except (OSError, TypeError, ValueError) as error:  # ValueError: JSON that has no end
                warn(f"{name} cannot be started ({error}); the run goes on without it")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        has_ended = kind is None or issubclass(kind, DivergedError)
        patience = PATIENCE if has_ended else HURRIED
        for follower in self._followers:
            follower.finish()
        try:
            self._wait(patience)
        finally:
            for follower in self._followers:
                follower.stop()
        self.tell()

    def _wait(self, patience: float) -> None:
        until = time.monotonic() + patience
        for follower in self._followers:
            if not follower.wait(min(patience / 6, until - time.monotonic())):
                _logger.info("waiting for %s, up to %.0f s", follower.name, patience)
            if not follower.wait(until - time.monotonic()):
                again = f"; for what it lacks: {self.again}" if self.again else ""
                warn(f"{follower.name} was not done after {patience:.0f} s and was stopped{again}")

    def beside(self, callback: Callable[P, None]) -> Callable[P, None]:
        """The callback of a run, which then tells of trackers too."""

        def both(*given: P.args, **named: P.kwargs) -> None:
            callback(*given, **named)
            self.tell()

        return both

    def tell(self) -> None:
        """Pass on, in the thread of the run, what trackers have said since."""
        for follower in self._followers:
            for sentence in follower.said():
                warn(sentence)


class _Follower:
    def __init__(self, name: str, runs: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._was_stopped = False
        job = {"tracker": name, "runs": runs, "path": sys.path, "patience": 1.5 * PATIENCE}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C is left to the run
        )
        self._order(json.dumps(job, default=str, skipkeys=True))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it is gone, which `_listen` tells
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            said = answers.read().decode(errors="replace").strip()
        code = self._process.wait()
        if said != DONE and not self._was_stopped:
            why = said or f"its process ended with code {code}"
            self._answers.put(f"{self.name} failed and is left out; the run is unaffected: {why}")

    def said(self) -> list[str]:
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._answers.get_nowait())
        return found

    def finish(self) -> None:
        """Say that nothing more will come."""
        assert self._process.stdin is not None
        self._order("")  # in words too: forks of this process may hold the pipe open
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Whatever it does: it, and what it has started."""
        if self._process.poll() is None:
            self._was_stopped = True
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
        self._listener.join(HURRIED)


def warn(sentence: str) -> None:
    """Where warnings are errors, this one is still none: the run has to go on."""
    try:
        warnings.warn(sentence, stacklevel=3)
    except Warning:
        sys.stderr.write(f"warning: {sentence}\n")
