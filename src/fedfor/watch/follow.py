"""Follows all runs in a folder, by looking at it now and then."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..errors import FolderError
from ..paper.results import RESULTS
from ..report.loading import LoadedRun, run_folders
from ..report.methods import methods_of
from .growing import COMPARISON, Growing, Inside, OutsideError, Stamp, stamp
from .status import Status, at, status_of

LOOK_EVERY, SEARCH_EVERY = 0.3, 0.5
"""Seconds between two looks, and at least between two searches for new runs."""
REST = 20
"""Times what a search takes of a core is the pause after it: 5 % of one at most."""


class Follower:
    """What is in a folder, now and as it changes. Several threads may ask."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = path.absolute(), clock
        self.revision = 0
        """Counts the changes of `runs`."""
        self._lock = threading.Lock()
        self._growing: dict[Path, Growing] = {}
        self._places = Inside(self.path)
        self._named_by: dict[Path, Stamp | None] = {}
        self._names: dict[Path, str] = {}
        self._outside: dict[Path, str] = {}
        self._gone_since: float | None = None
        self._look_at = self._search_at = 0.0
        self._status = Status("waiting", "")

    @property
    def runs(self) -> list[LoadedRun]:
        """As they were at the last look."""
        with self._lock:
            return self._runs()

    def look(self) -> Status:
        """How all stands. Asked again at once, it says the same again."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._status = self._look()
                self._look_at = time.monotonic() + LOOK_EVERY
            return self._status

    def _runs(self) -> list[LoadedRun]:
        return [one.run for one in self._growing.values() if one.run is not None]

    def _look(self) -> Status:
        before = self.revision
        if time.monotonic() >= self._search_at or self._gone_since is not None:
            began = time.thread_time()
            self._search()
            rest = REST * (time.thread_time() - began)
            self._search_at = time.monotonic() + max(SEARCH_EVERY, rest)
        if self._gone_since is None:
            self.revision += sum(self._read(one) for one in self._growing.values())
        if self.revision != before:
            methods = methods_of(self._runs())
            self._names = {run.path: m.label for m in methods for run in m.runs}
        return self._told()

    def _search(self) -> None:
        """Which runs there are now. Those that are gone are kept if nothing else has come."""
        found = list(run_folders(self.path))
        if not found:
            if self._growing and self._gone_since is None:
                self._gone_since = self.clock()
            return
        self._gone_since = None
        if set(found) != set(self._growing):
            self._growing = {path: self._growing.get(path) or Growing(path) for path in found}
            self._named_by = {}
            self._outside = {p: why for p, why in self._outside.items() if p in self._growing}
            self.revision += 1
        self._name()

    def _name(self) -> None:
        """Call runs what comparisons and studies call them, which may have come meanwhile."""
        within = {a for p in self._growing for a in p.parents if a.is_relative_to(self.path)}
        files = [above / name for above in within for name in (COMPARISON, RESULTS)]
        named_by = {file: stamp(file) for file in files}
        if named_by == self._named_by:
            return
        self._named_by, self._places = named_by, Inside(self.path)
        for path, one in self._growing.items():
            named = self._places.name(path)
            if one.run is not None and named is not None:
                one.run = replace(one.run, label=named[0], point=named[1])
        # In the order asked for, as in the report, so that methods have its colours.
        order = sorted(self._growing, key=self._places.rank)
        self._growing = {path: self._growing[path] for path in order}
        self.revision += 1

    def _read(self, one: Growing) -> bool:
        """Whether there is something new. What cannot be read now may be the next time."""
        try:
            changed = one.look(self._places)
        except OutsideError as error:
            changed = one.run is not None or one.path not in self._outside
            self._outside[one.path], one.run = str(error), None
        except RecursionError:  # nested as no run is
            self._outside[one.path], one.run = f"{one.path} is nested too deeply", None
            return False
        except OSError:  # gone, or not for us to read: the next search tells
            self._search_at = 0.0
            return False
        else:
            self._outside.pop(one.path, None)
        return changed

    def _told(self) -> Status:
        if not self._runs():
            return Status("waiting", self._why_nothing())
        now = self.clock() if self._gone_since is None else self._gone_since
        status = status_of(list(self._growing.values()), self._names, self.path, now)
        if self._gone_since is not None:
            words = (
                f"{self.path} is gone since {at(self._gone_since)}: it was moved or deleted. "
                "What was read of it is kept here, and goes on once it is back."
            )
            return replace(status, state="gone", words=words, left=None)
        if self._outside:
            words = f"{status.words} Not read: {'; '.join(self._outside.values())}."
            return replace(status, words=words)
        return status

    def _why_nothing(self) -> str:
        if self._outside:
            return f"Nothing is read: {'; '.join(self._outside.values())}."
        if not self.path.is_dir():
            return f"There is no folder {self.path} yet; waiting for it."
        return f"There is no run in {self.path} yet; waiting for the first."


def require_watchable(path: Path) -> None:
    """Refuse what no run is in and none can come. One that is not there yet may come."""
    if path.is_dir():
        if any(run_folders(path)) or (path / COMPARISON).is_file():
            return
        if (path / RESULTS).is_file():
            raise FolderError(
                f"{path} holds results and no runs that could be followed; see them with 'fedfor "
                f"report {path}'"
            )
        if any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise FolderError(
                f"{path} holds no run; name a folder that 'fedfor run', 'compare' or 'reproduce' "
                "writes to, that of a federation on Flower, or one that is not there yet"
            )
    elif path.exists():
        raise FolderError(f"{path} is a file; name the folder of a run or of several")
