import json
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedfor import cli
from fedfor.data import DataSplit, LabelledData

from .processes import without_group

torch.set_num_threads(1)
# Two threads of each of several processes on two cores mostly wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
# Ray's workers otherwise give way to whatever else runs, the other tests for one.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (Ray spells it so)

ROOT = Path(__file__).parents[1]

# A shell has its background jobs ignore Ctrl-C, and whatever they start ignores it too. Tests
# that interrupt a process would wait for ever; so it is here as in the foreground.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Tell Python where processes that tests start find their modules: in tests/quick what it runs
    first, in ROOT the tests' own. Each process of pytest-xdist does so for itself. If the one that
    starts them did, they would run that file too."""
    if os.getenv("PYTEST_XDIST_WORKER") or not config.getoption("numprocesses", default=None):
        paths = [str(ROOT / "tests/quick"), str(ROOT), os.getenv("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two cores are too few for many clusters. Their tests are two groups of about the same length,
    and those of a group run one after another.

    Tests that wait run first, so that no long one is left alone at the end.
    """
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.processes)
            if not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group("cluster"))
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)


FAILED = ROOT / ".pytest_cache" / "failed.txt"
"""What failed the last time. pytest's own --last-failed does not know names with groups."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """The last words of a run that failed: what failed, and how to run it again."""
    done = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # in a worker of pytest-xdist
        return done
    reports = [*reporter.getreports("failed"), *reporter.getreports("error")]
    names = dict.fromkeys(without_group(report.nodeid) for report in reports)
    FAILED.unlink(missing_ok=True)
    if names:
        FAILED.parent.mkdir(exist_ok=True)
        FAILED.write_text("".join(f"{name}\n" for name in names))
        reporter.write_line("")
        for name in names:
            reporter.write_line(f"failed: {name}")
        again = f"{short(Path(sys.executable))} -m pytest @{short(FAILED)}"
        where = "" if Path.cwd() == ROOT else f", in {ROOT}"
        reporter.write_line(f"To run {'it' if len(names) == 1 else 'them'} again{where}: {again}")
    return done


def made_data(
    samples: int = 60, classes: int = 3, shape: tuple[int, ...] = (1, 8, 8), seed: int = 0
) -> DataSplit:
    """Small random images whose mean tells the class, so that there is something to learn."""
    g = torch.Generator().manual_seed(seed)

    def part(name: str, n: int) -> LabelledData:
        y = torch.arange(n) % classes
        x = torch.randn(n, *shape, generator=g) + y.view(-1, *(1 for _ in shape))
        return LabelledData(name, x, y, classes)

    return DataSplit(part("made (train)", samples), part("made (test)", 30))


def short(path: Path) -> Path:
    """As one would type it in the root folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


@pytest.fixture
def split() -> DataSplit:
    return made_data()


def trace(folder: Path, *devices: dict[str, Any]) -> Path:
    """A file of devices that are not always there."""
    path = folder / "devices.jsonl"
    path.write_text("".join(json.dumps(device) + "\n" for device in devices))
    return path


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self.monkeypatch.setattr(sys, "argv", ["fedfor", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def fedfor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys, monkeypatch)
