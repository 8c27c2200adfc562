"""What holds of the tests themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedfor

HERE = Path(__file__).parent
SOURCES = Path(fedfor.__file__).parent
ROOMS = sorted(path.parent.name for path in SOURCES.glob("*/__init__.py"))


@pytest.mark.fast
@pytest.mark.parametrize("room", ROOMS)
def test_the_fast_tests_cover_every_room(room: str) -> None:
    """Or `make check` would pass where one is broken."""
    texts = [path.read_text() for path in HERE.rglob("test_*.py")]
    assert any(f"fedfor.{room}" in text for text in texts if "pytest.mark.fast" in text)


CLOCK = {"sleep", "monotonic", "perf_counter", "perf_counter_ns", "wait_for_timeout"}
MAY_SLEEP = {
    "engines/ray/deadly.py": "a worker that stands still",
    "flower/fedtest_app/fedtest/client_app.py": "a node that is held until it may go on",
    "halting.py": "a model that halts",
    "processes.py": "waits for whatever happens",
    "tracking/trackers.py": "a tracker that hangs",
}
WAITS = {"wait", "join", "communicate", "run", "set_default_timeout"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """The name of each function that is called there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield function.attr, node
            elif isinstance(function, ast.Name):
                yield function.id, node


@pytest.mark.fast
def test_no_test_looks_at_the_clock() -> None:
    """It waits for what happens, with `wait_until`, and measures nothing."""
    found = {
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("*.py")
        if any(name in CLOCK for name, _ in calls(path))
    }
    assert found == MAY_SLEEP.keys()


@pytest.mark.fast
def test_every_wait_has_the_one_bound() -> None:
    """A number of seconds of its own would be too short on some machine."""
    found = []
    for path in HERE.rglob("*.py"):
        for name, call in calls(path):
            bounds = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
            bounds += call.args if name in WAITS else []
            for bound in bounds:
                number = bound.value if isinstance(bound, ast.Constant) else None
                if isinstance(number, (int, float)) and number:
                    found.append(f"{path.relative_to(HERE)}, line {call.lineno}: {number}")
    assert found == []


@pytest.mark.xdist_group("suite")
def test_groups_of_tests_are_kept_together(request: pytest.FixtureRequest) -> None:
    """Where pytest-xdist knows no groups, each of its processes starts clusters of its own."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@suite")
