"""Run the tests again and again, also on a machine that is busy, and write down how it went.

    python -m tools.repeat_tests --out results/tests.json      # all of it
    python -m tools.repeat_tests --quick                       # once the whole, once on one core
    python -m tools.repeat_tests --table results/tests.json    # what was written down

The whole suite runs three times in a row, the second time beside two processes that keep both
cores busy. Then the tests that start servers, clusters and processes run ten times on a single
core: five times on each of two cores, side by side.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.processes import without_group

ROOT = Path(__file__).parent.parent
WHOLE = ("-n", "2", "--dist", "loadgroup")
SLOWEST = 20
PACKAGES = ("torch", "pytest", "pytest-xdist", "ray", "flwr")


@dataclass(frozen=True)
class Plan:
    what: str
    words: Sequence[str]
    busy_loops: int = 0
    core: int | None = None


@dataclass
class Outcome:
    what: str
    command: str
    seconds: float
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    slowest: list[tuple[str, float]] = field(default_factory=list)


def run(plan: Plan, folder: Path) -> Outcome:
    report, log = folder / "report.xml", folder / "log.txt"
    words = [sys.executable, "-m", "pytest", *plan.words]
    if plan.core is not None:
        words = ["taskset", "--cpu-list", str(plan.core), *words]
    written = ["-q", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    began = time.perf_counter()
    with keeping_busy(plan.busy_loops), log.open("wb") as file:
        done = subprocess.run(
            [*words, *written], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    seconds = time.perf_counter() - began
    command = shlex.join([Path(word).name if word == sys.executable else word for word in words])
    if not report.is_file():
        sys.exit(f"{command} ended with code {done.returncode}:\n{log.read_text()[-2000:]}")
    outcome = read(report, plan.what, command, seconds)
    if outcome.failed:
        kept = Path(tempfile.gettempdir(), f"failed-{os.getpid()}-{time.time_ns()}.txt")
        kept.write_bytes(log.read_bytes())
        print(f"  what failed says why in {kept}", flush=True)
    return outcome


@contextmanager
def keeping_busy(loops: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def read(report: Path, what: str, command: str, seconds: float) -> Outcome:
    """From what pytest writes with --junitxml."""
    outcome = Outcome(what, command, round(seconds, 1))
    took = list[tuple[str, float]]()
    for case in ET.parse(report).getroot().iter("testcase"):
        name = without_group(f"{case.get('file', '')}::{case.get('name')}")
        took.append((name, float(case.get("time", 0))))
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcome.failed.append(name)
        elif "skipped" in kinds:
            outcome.skipped += 1
        else:
            outcome.passed += 1
    outcome.slowest = sorted(took, key=lambda one: -one[1])[:SLOWEST]
    return outcome


def plans(quick: bool) -> tuple[list[Plan], list[Plan]]:
    """Those that run one after another, and those that run side by side, each on its core."""
    alone = Plan("the whole suite", WHOLE)
    busy = Plan("the whole suite beside two busy loops", WHOLE, busy_loops=2)
    cores = sorted(os.sched_getaffinity(0))[:2]
    single = [
        Plan("servers, clusters and processes on one core", ("-m", "processes"), core=core)
        for core in cores
    ]
    return ([alone], single[:1]) if quick else ([alone, busy, alone], single * 5)


def all_of(quick: bool) -> list[Outcome]:
    one_after_another, side_by_side = plans(quick)
    outcomes = list[Outcome]()

    def do(plan: Plan) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="fedfor-tests-") as folder:
            outcome = run(plan, Path(folder))
        print(line(outcome), flush=True)
        return outcome

    for plan in one_after_another:
        outcomes.append(do(plan))

    def on_core(core: int | None) -> list[Outcome]:
        return [do(plan) for plan in side_by_side if plan.core == core]

    cores = sorted({plan.core for plan in side_by_side if plan.core is not None})
    with ThreadPoolExecutor() as threads:
        for found in threads.map(on_core, cores):
            outcomes += found
    return outcomes


def line(outcome: Outcome) -> str:
    failed = f", failed: {', '.join(outcome.failed)}" if outcome.failed else ""
    return f"{outcome.what}: {outcome.seconds:.0f} s, {outcome.passed} passed{failed}"


def machine() -> dict[str, Any]:
    told = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(told, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def table(found: dict[str, Any]) -> str:
    """What was written down, as Markdown."""
    lines = ["| run | seconds | passed | failed | skipped |", "|---|---:|---:|---:|---:|"]
    for one in found["runs"]:
        counts = one["passed"], len(one["failed"]), one["skipped"]
        lines.append(f"| {one['what']} | {one['seconds']:.0f} | {' | '.join(map(str, counts))} |")
    failed = sorted({name for one in found["runs"] for name in one["failed"]})
    lines += ["", f"Failed: {', '.join(failed)}." if failed else "Nothing failed."]
    lines += ["", "The slowest tests of the first run:", "", "| seconds | test |", "|---:|---|"]
    lines += [f"| {took:.1f} | `{name}` |" for name, took in found["runs"][0]["slowest"]]
    about = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    return "\n".join([*lines, "", f"{about[0].upper()}{about[1:]}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write what comes of it there, as JSON")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", type=Path, help="only print what such a file says")
    chosen = parser.parse_args()
    if chosen.table is not None:
        print(table(json.loads(chosen.table.read_text())))
        return
    before = machine()
    found = {"machine": before, "runs": [asdict(outcome) for outcome in all_of(chosen.quick)]}
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
    sys.exit(any(one["failed"] for one in found["runs"]))


if __name__ == "__main__":
    main()
