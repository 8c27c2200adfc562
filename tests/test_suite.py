"""What holds of the tests themselves."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedfor

from .processes import HANG

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
WAITS = {"wait", "communicate"}
"""They hang where what they wait for never happens, so a bound must be given."""
BOUNDED = {"join", "result", "set_default_timeout"}
"""They may go without, but not with one of their own."""
BOUNDS = {"HANG", "1000 * HANG", "0"}
"""In a browser they are milliseconds."""
MAY_WAIT = {
    "experiments/test_own_process.py": "in place of a process's own wait",
    "flower/fedtest_app/fedtest/server_app.py": "as long as a test tells the app",
    "tracking/test_failures.py": "in place of a tracker's own wait",
}


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
    """One of its own would be too short on some machine, and without one a hang has no end."""
    found = {}
    for path in HERE.rglob("*.py"):
        for name, call in calls(path):
            bounds = [ast.unparse(k.value) for k in call.keywords if k.arg == "timeout"]
            bounds += map(ast.unparse, call.args) if name in WAITS | BOUNDED else []
            starts = ast.unparse(call.func).startswith("subprocess.") and name != "Popen"
            own = [bound for bound in bounds if bound not in BOUNDS]
            if name in BOUNDED:
                own = [bound for bound in own if bound.replace(".", "").isdigit()]
            if own or ((starts or name in WAITS) and not bounds):
                found[path.relative_to(HERE).as_posix()] = f"line {call.lineno}: {bounds}"
    assert found.keys() == MAY_WAIT.keys(), found


TRAINED = """
import sys, torch
torch.manual_seed(0)
model, data = torch.nn.Linear(3, 2), torch.randn(4, 3)
for optimizer in (
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    torch.optim.AdamW(model.parameters(), lr=0.1),
):
    for _ in range(3):
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules, [p.tolist() for p in model.parameters()])
"""


@pytest.mark.fast
def test_processes_start_without_the_compiler_and_train_the_same() -> None:
    told = []
    for there in (os.environ["PYTHONPATH"], ""):
        words = [sys.executable, "-c", TRAINED]
        env = {**os.environ, "PYTHONPATH": there}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split(maxsplit=1))
    (quick, ours), (_, theirs) = told
    assert quick == "False"
    assert ours == theirs


@pytest.mark.fast
def test_this_process_has_torch_as_it_is() -> None:
    module = sys.modules.get("sitecustomize")
    assert "quick" not in Path(getattr(module, "__file__", None) or "").parts


@pytest.mark.xdist_group("suite")
def test_groups_of_tests_are_kept_together(request: pytest.FixtureRequest) -> None:
    """Where pytest-xdist knows no groups, each of its processes starts clusters of its own."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@suite")
