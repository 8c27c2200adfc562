"""Whatever happens to a process that is asked for something is one sentence to whoever asked."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedfor.experiments import own_process
from fedfor.experiments.own_process import PROBLEM, ask

from ..processes import HANG, wait_until

pytestmark = pytest.mark.processes

WORK = """
import os, time
from pathlib import Path
from fedfor.errors import ConfigError
from fedfor.experiments.own_process import answer

def work(asked, folder):
    if "refuse" in asked:
        raise ConfigError(asked["refuse"])
    if "raise" in asked:
        raise ValueError(asked["raise"])
    if "sleep" in asked:
        try:
            Path("began").touch()
            time.sleep(asked["sleep"])
        except KeyboardInterrupt:
            Path("tidied").touch()
            raise
    (folder / "made").mkdir()
    return {"twice": 2 * asked["number"], "process": os.getpid(), "in": str(folder)}

answer(work)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which there is a module `work`, and into which others can be written."""
    (tmp_path / "work.py").write_text(WORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_work_is_done_in_a_process_and_a_folder_of_its_own(work: Path) -> None:
    found = ask("work", {"number": 21}, HANG)
    assert found["twice"] == 42
    assert found["process"] != os.getpid()
    assert not Path(found["in"]).exists()  # nothing is left


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"refuse": "there is none; take another"}, "there is none; take another"),
        ({"raise": "no good\nat all"}, "ValueError: no good ("),
        ({}, "KeyError: 'number' ("),
    ],
)
def test_what_it_raises_is_told_in_one_line(work: Path, asked: dict[str, str], words: str) -> None:
    found = ask("work", asked, HANG)
    assert list(found) == [PROBLEM]
    assert found[PROBLEM].startswith(words)
    assert "\n" not in found[PROBLEM]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9, as it is when memory runs out"),
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11"),
        ("import sys; sys.exit(3)", "ended with code 3"),
        ("import sys; sys.exit('no luck\\nat all\\n\\n')", "ended with code 1: at all"),
        (
            "import os, sys; print('what(): it broke', file=sys.stderr, flush=True); os.abort()",
            "ended with code -6: what(): it broke",
        ),
        ("pass", "ended with code 0"),
        ("import sys; sys.stderr.buffer.write(b'\\xff!'); sys.exit(1)", "ended with code 1: �!"),
    ],
)
def test_a_process_that_dies_is_told_by_how_it_died(work: Path, code: str, words: str) -> None:
    (work / "dying.py").write_text(code)
    assert ask("dying", {}, HANG) == {PROBLEM: f"its process {'was ' * ('killed' in words)}{words}"}


def test_a_module_that_is_not_there_is_told(work: Path) -> None:
    assert "No module named" in ask("nowhere", {}, HANG)[PROBLEM]


LIMIT = 7.0


def over_once(happened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a process is given is over when this has happened, however long that takes."""

    class Process(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout != LIMIT:
                return super().wait(timeout)
            wait_until(happened.exists, f"{happened.name} is there", self)
            raise subprocess.TimeoutExpired(self.args, LIMIT)

    monkeypatch.setattr(own_process.subprocess, "Popen", Process)


@pytest.mark.parametrize("ctrl_c", [signal.SIG_DFL, signal.SIG_IGN])
def test_one_that_takes_too_long_ends_tidily(
    work: Path, monkeypatch: pytest.MonkeyPatch, ctrl_c: Any
) -> None:
    """Also in a shell's background job, which ignores Ctrl-C and has what it starts ignore it."""
    monkeypatch.setattr(own_process, "PATIENCE", HANG)
    over_once(work / "began", monkeypatch)
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        found = ask("work", {"sleep": 2 * HANG}, LIMIT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == {PROBLEM: "it took longer than 7 s"}
    assert (work / "tidied").exists()


def test_one_that_does_not_end_is_killed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process, "PATIENCE", 0.2)
    over_once(work / "pid", monkeypatch)
    (work / "deaf.py").write_text(
        "import os, time\nopen('own', 'w').write(str(os.getpid()))\n"
        f"os.rename('own', 'pid')\ntime.sleep({HANG})"
    )
    assert ask("deaf", {}, LIMIT) == {PROBLEM: "it took longer than 7 s"}
    assert not Path(f"/proc/{(work / 'pid').read_text()}").exists()
