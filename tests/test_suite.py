"""What holds of the tests themselves."""

import re
from pathlib import Path

import pytest

import fedfor

HERE = Path(__file__).parent
SOURCES = Path(fedfor.__file__).parent
ROOMS = sorted(path.parent.name for path in SOURCES.glob("*/__init__.py"))

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("room", ROOMS)
def test_the_fast_tests_cover_every_room(room: str) -> None:
    """Or `make check` would pass where one is broken."""
    texts = [path.read_text() for path in HERE.rglob("test_*.py")]
    assert any(f"fedfor.{room}" in text for text in texts if "pytest.mark.fast" in text)


SLEEPS = re.compile(r"\btime\.sleep\(|(?<!def )\bmonotonic\(|\bperf_counter\(|\btime\.time\(")
MAY_SLEEP = {
    "engines/ray/deadly.py": "a worker that stands still",
    "experiments/test_own_process.py": "processes that take too long",
    "flower/fedtest_app/fedtest/client_app.py": "a node that is held until it may go on",
    "halting.py": "a model that halts",
    "processes.py": "waits for whatever happens",
    "tracking/trackers.py": "a tracker that hangs",
}


def test_no_test_looks_at_the_clock() -> None:
    """It waits for what happens, with `wait_until`, and measures nothing."""
    found = {
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("*.py")
        if SLEEPS.search(path.read_text()) and path != Path(__file__)
    }
    assert found <= MAY_SLEEP.keys(), found - MAY_SLEEP.keys()


def test_every_wait_has_the_one_bound() -> None:
    """A number of one's own would be too short on some machine."""
    bound = re.compile(r"timeout=(?!HANG|1000 \* HANG|0\b|timeout|config)[^,)]+")
    found = {
        f"{path.relative_to(HERE)}: {match[0]}"
        for path in HERE.rglob("*.py")
        for match in bound.finditer(path.read_text())
        if path != Path(__file__)
    }
    assert found == set()


@pytest.mark.xdist_group("suite")
def test_groups_of_tests_are_kept_together(request: pytest.FixtureRequest) -> None:
    """Where pytest-xdist knows no groups, each of its processes starts clusters of its own."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@suite")
