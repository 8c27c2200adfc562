"""The folder of one run, of which only what has grown is read again."""

import json
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..experiments.folder import whole_records
from ..paper.results import MADE, RESULTS
from ..report.loading import LoadedRun, Places, read_run

COMPARISON = "compare.toml"
ROUNDS = "rounds.jsonl"
ERROR = "error.txt"
LOCK = ".lock"
"""Taken by the process that does the run, and never by us."""
FILES = ("config.toml", "summary.json", "environment.json", "cohort.json", ERROR, MADE)
"""What is read of a run beside its rounds. They are replaced as a whole, and seldom."""

MARKS = 20
"""Moments that are kept to tell how fast a run goes."""
MOST_OF_ERROR = 4096
"""Bytes at the end of an error.txt, where the error itself is."""

Stamp = tuple[int, int]
"""When a file was last written, in ns, and its size."""


class OutsideError(Exception):
    """Something in a run folder that is not to be read: a link out of it, or no file at all."""


class Inside(Places):
    """What comparisons and studies call the runs, as far as the watched folder itself says it."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.real = top.resolve()

    def _read(self, above: Path) -> dict[Path, tuple[str, str]]:
        named_by = (above / COMPARISON, above / RESULTS)
        return {} if any(map(self.leads_out, named_by)) else super()._read(above)

    def leads_out(self, path: Path) -> bool:
        """Whether a file is not in the watched folder, or is a link to one that is not."""
        if not path.is_relative_to(self.top):
            return True
        return path.is_symlink() and not path.resolve().is_relative_to(self.real)


class Growing:
    """A run as it was when it was last looked at. Nothing is written, locked or kept open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run: LoadedRun | None = None
        self.begun = False
        """Whether a process has taken it up, which it may long before the first round is done."""
        self.since = 0.0
        """When it was last seen to go on."""
        self.command = ""
        """That which a study was begun with, and goes on with."""
        self._gave_up = 0.0, ""
        self.marks: deque[tuple[float, int]] = deque(maxlen=MARKS)
        """When which round was seen to be done."""
        self._files: tuple[Stamp | None, ...] = ()
        self._rounds: Stamp | None = None
        self._end, self._last_line = 0, b""

    def look(self, places: Inside) -> bool:
        """Whether there is something new. A folder that is gone is a FileNotFoundError."""
        for path in (self.path / name for name in (*FILES, ROUNDS)):
            if places.leads_out(path):
                raise OutsideError(f"{path} leads out of the folder")
            if not path.is_file() and path.exists():  # a pipe would never end
                raise OutsideError(f"{path} is no file")
        files = tuple(stamp(self.path / name) for name in FILES)
        rounds = stamp(self.path / ROUNDS)
        if files[0] is None and rounds is None:
            raise FileNotFoundError(self.path)
        lock = stamp(self.path / LOCK)
        self.begun = lock is not None or rounds is not None
        self.since = max(s[0] for s in (files[0], rounds, lock) if s is not None) / 1e9
        if self.run is not None and (files, rounds) == (self._files, self._rounds):
            return False
        summary = files[FILES.index("summary.json")]
        if self.run is None or files != self._files or summary is not None or not self._grow():
            self._read(places)
        self._mark(rounds)
        self.command = self._command()
        self._gave_up = self._error(files[FILES.index(ERROR)])
        self._files, self._rounds = files, rounds
        return True

    @property
    def error(self) -> str:
        """Why its process gave it up, if none has taken it up again since."""
        when, why = self._gave_up
        return why if when >= self.since else ""

    def _grow(self) -> bool:
        """Add the lines that have come since; not so if the lines before them were changed."""
        if self.run is None:
            return False
        try:
            with (self.path / ROUNDS).open("rb") as file:
                file.seek(self._end - len(self._last_line))
                content = file.read()
        except FileNotFoundError:
            return False
        if not content.startswith(self._last_line):
            return False
        new = content[len(self._last_line) :]
        records = whole_records(new, len(self.run.records))
        if len(records) < new.count(b"\n"):  # one of them is damaged, which a whole look tells
            return False
        if records:
            self.run = replace(self.run, records=[*self.run.records, *records])
            self._at(new, len(records), self._end)
        return True

    def _read(self, places: Places) -> None:
        """All of it. It may grow meanwhile: that is for the next look."""
        content = b""
        with suppress(FileNotFoundError):
            content = (self.path / ROUNDS).read_bytes()
        run = read_run(self.path, places)
        if not any((self.path / name).exists() for name in (FILES[0], ROUNDS)):
            raise FileNotFoundError(self.path)  # moved away while it was read
        if run.summary is None:
            run = replace(run, records=run.records[: content.count(b"\n")])
        before = len(self.run.records) if self.run is not None else 0
        if not content.startswith(self._last_line, self._end - len(self._last_line)) or (
            len(run.records) < before
        ):
            self.marks.clear()  # it was begun anew, or taken up again where a checkpoint is
        self.run, self._end, self._last_line = run, 0, b""
        self._at(content, len(run.records), 0)

    def _at(self, content: bytes, lines: int, start: int) -> None:
        """Keep in mind how far the lines reach, and the last of them, to know it again."""
        if lines:
            taken = content.splitlines(keepends=True)[:lines]
            self._end, self._last_line = start + sum(map(len, taken)), taken[-1]

    def _mark(self, rounds: Stamp | None) -> None:
        if self.run is None or rounds is None or rounds == self._rounds:
            return
        done = len(self.run.records)
        if self.marks and self.marks[-1][1] >= done:  # written anew, as a resumed run does
            self.marks.clear()
        self.marks.append((rounds[0] / 1e9, done))

    def _command(self) -> str:
        try:
            made = json.loads((self.path / MADE).read_bytes())
        except (FileNotFoundError, ValueError):
            return ""
        return str(made.get("command", "")) if isinstance(made, dict) else ""

    def _error(self, written: Stamp | None) -> tuple[float, str]:
        """When a traceback was written, and its last line."""
        if written is None:
            return 0.0, ""
        with (self.path / ERROR).open("rb") as file:
            file.seek(max(0, written[1] - MOST_OF_ERROR))
            lines = file.read().decode(errors="replace").split("\n")
        return written[0] / 1e9, next(
            (t.strip() for t in reversed(lines) if t.strip()), "it failed"
        )


def stamp(path: Path) -> Stamp | None:
    """None where there is no such file, or none that can be read now."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
