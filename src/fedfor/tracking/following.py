"""Follows a run's folder as it grows, and tells a tracker of it."""

import json
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import FolderError
from .numbers import TOTALS, fitting, flat_numbers
from .protocol import Round, Run, Tracker


class RoundsFile:
    """Reads of rounds.jsonl only what has grown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file_id, self._offset = 0, 0
        self._totals = Counter[str]()

    def grown(self) -> list[Round]:
        """Whole lines that have come. A file that a resume has written anew is read anew."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file_id or status.st_size < self._offset:
                    self._file_id, self._offset = status.st_ino, 0
                    self._totals.clear()
                if status.st_size == self._offset:
                    return []
                file.seek(self._offset)
                lines = file.read().splitlines(keepends=True)
        except OSError:  # not there yet, or not any more
            return []
        found = []
        for line in lines:
            record = _record(line)
            if record is None:
                break  # cut short: it may be being written just now
            self._offset += len(line)
            found.append(self._round(record))
        return found

    def _round(self, record: Mapping[str, Any]) -> Round:
        numbers = flat_numbers({k: v for k, v in record.items() if k != "round"})
        self._totals.update({key: numbers[key] for key in TOTALS if key in numbers})
        totals = {f"total/{key}": total for key, total in self._totals.items()}
        return Round(record["round"], numbers | totals, record)


def _record(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("round"), int) else None


class Memory:
    """What a tracker has of a run, kept in the run's folder so that it can go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.round, self.has_ended = 0, False
        self.kept: dict[str, str] | None = None
        with suppress(OSError, ValueError, KeyError, TypeError):
            saved = json.loads(self.path.read_text(encoding="utf-8"))
            self.round, self.has_ended = int(saved["round"]), bool(saved["ended"])
            self.kept = saved["kept"]

    def save(self) -> None:
        told = {"round": self.round, "ended": self.has_ended, "kept": self.kept}
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.path)


class Followed:
    """One run and one tracker."""

    def __init__(self, about: Mapping[str, Any], tracker: str, make: Callable[[], Tracker]) -> None:
        self.about, self.make = about, make
        self.folder = Path(about["folder"])
        self.rounds = RoundsFile(self.folder / "rounds.jsonl")
        self.is_over = False
        self._tracker: Tracker | None = None
        self._path = self.folder / "tracking" / fitting(tracker, r"[^A-Za-z0-9._-]", 80)
        self._lock: FileLock | None = None
        # The summary of a run that is made longer is not yet its end.
        self._stale = None if about.get("done") else self._summary_status()

    def advance(self, last: bool) -> None:
        """Tell what is new. `last`: nothing more will come, whether the run is done or not."""
        if not self._is_ours(last):
            return
        status = self._summary_status()  # looked at first: all its rounds are in the file by then
        has_ended = status is not None and (last or status != self._stale)
        new = [r for r in self.rounds.grown() if r.number > self.memory.round]
        if new:
            self._started().log(new)
            self.memory.round, self.memory.has_ended = new[-1].number, False
            self.memory.save()
        if has_ended or last:
            self._end(self._summary() if has_ended else None)
            self.is_over = True
            if self._lock is not None:
                self._lock.release()

    def _is_ours(self, last: bool) -> bool:
        """Two processes would tell rounds twice: the last one to come waits for the other."""
        if self._lock is not None:
            return True
        if not self.rounds.path.is_file() and self._summary_status() is None:
            return False  # and the folder may have to be empty still
        self._path.parent.mkdir(exist_ok=True)
        lock = FileLock(self._path.with_name(f".{self._path.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            if last:
                raise FolderError(f"another process tracks {self.folder} still") from error
            return False
        self._lock, self.memory = lock, Memory(self._path.with_name(f"{self._path.name}.json"))
        return True

    def _end(self, summary: dict[str, Any] | None) -> None:
        """Also where only the end was missing."""
        if self._tracker is None and (summary is None or self.memory.has_ended):
            return
        self._started().end(summary)
        self.memory.has_ended = summary is not None
        self.memory.save()

    def _started(self) -> Tracker:
        if self._tracker is None:
            tracker = self.make()
            kept = tracker.start(self._run())
            self.memory.kept = self.memory.kept if kept is None else dict(kept)
            self.memory.save()
            self._tracker = tracker
        return self._tracker

    def _run(self) -> Run:
        config: dict[str, Any] = self.about.get("config") or {}
        if not config:
            with suppress(OSError, ValueError):
                config = tomllib.loads((self.folder / "config.toml").read_text(encoding="utf-8"))
        name = self.about.get("name") or self.folder.name
        run = Run(name, self.folder, config, "", self.memory.round + 1, self.memory.kept)
        return replace(run, group=self.about.get("group") or run.algorithm)

    def _summary_status(self) -> tuple[int, int] | None:
        try:
            status = (self.folder / "summary.json").stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _summary(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
            if isinstance(summary, dict):
                return summary
        return {}
