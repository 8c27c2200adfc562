"""Run the tests again and again, also on a machine that is busy, and write down how it went.

    python -m tools.repeat_tests --out results/tests.json             # all of it: some two hours
    python -m tools.repeat_tests --whole 1 --busy 0 --single 0        # a part of it
    python -m tools.repeat_tests --table results/tests.json           # what was written down

The whole suite runs three times in a row, the second time beside two processes that keep both
cores busy. Then the tests that start servers, clusters and processes run ten times on a single
core: five times on each of two cores, side by side.
"""

import argparse
import itertools
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.processes import without_group

ROOT = Path(__file__).parent.parent
WHOLE_SUITE = "the whole suite"
WHOLE = ("-n", "3", "--dist", "loadgroup")
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
    commit: str = ""
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
    if done.returncode and not outcome.failed:  # interrupted, or pytest itself was at fault
        outcome.failed.append(f"pytest, which ended with code {done.returncode}")
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


def plans(whole: int, busy: int, single: int) -> tuple[list[Plan], list[Plan]]:
    """Those that run one after another, and those that run side by side, each on its core."""
    alone = [Plan(WHOLE_SUITE, WHOLE)] * whole
    beside = [Plan(f"{WHOLE_SUITE} beside two busy loops", WHOLE, busy_loops=2)] * busy
    cores = sorted(os.sched_getaffinity(0))[:2]
    on_one = [
        Plan("servers, clusters and processes on one core", ("-m", "processes"), core=core)
        for core, _ in zip(itertools.cycle(cores), range(single), strict=False)
    ]
    return alone[:1] + beside + alone[1:], on_one


def do_all(
    one_after_another: Sequence[Plan],
    side_by_side: Sequence[Plan],
    write: Callable[[Sequence[Outcome]], None],
) -> None:
    """What is known so far is written after each run."""
    outcomes, commit, writing = list[Outcome](), commit_now(), threading.Lock()

    def do(plan: Plan) -> None:
        with tempfile.TemporaryDirectory(prefix="fedfor-tests-") as folder:
            outcome = run(plan, Path(folder))
        outcome.commit = commit
        print(line(outcome), flush=True)
        with writing:
            outcomes.append(outcome)
            write(outcomes)

    for plan in one_after_another:
        do(plan)
    with ThreadPoolExecutor() as threads:
        streams = [
            threads.submit(lambda mine=mine: [do(plan) for plan in mine])
            for mine in (side_by_side[0::2], side_by_side[1::2])
        ]
    for stream in streams:
        stream.result()


def line(outcome: Outcome) -> str:
    failed = f", failed: {', '.join(outcome.failed)}" if outcome.failed else ""
    return f"{outcome.what}: {outcome.seconds:.0f} s, {outcome.passed} passed{failed}"


def commit_now() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def table(found: dict[str, Any]) -> str:
    """What was written down, as Markdown."""
    lines = [
        "| run | commit | seconds | passed | failed | skipped |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for one in found["runs"]:
        counts = one["passed"], len(one["failed"]), one["skipped"]
        about = one["what"], one["commit"], f"{one['seconds']:.0f}"
        lines.append(f"| {' | '.join(map(str, (*about, *counts)))} |")
    failed = sorted({name for one in found["runs"] for name in one["failed"]})
    lines += ["", f"Failed: {', '.join(failed)}." if failed else "Nothing failed."]
    undisturbed = [one for one in found["runs"] if one["what"] == WHOLE_SUITE]
    shown = (undisturbed or found["runs"])[-1]
    lines += ["", f"The slowest tests of {shown['what']}, at commit {shown['commit']}:", ""]
    lines += ["| seconds | test |", "|---:|---|"]
    lines += [f"| {took:.1f} | `{name}` |" for name, took in shown["slowest"]]
    about = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    return "\n".join([*lines, "", f"{about[0].upper()}{about[1:]}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", type=int, default=2, help="runs of the whole suite alone")
    parser.add_argument("--busy", type=int, default=1, help="and beside two busy loops")
    parser.add_argument("--single", type=int, default=10, help="runs on a single core")
    parser.add_argument("--out", type=Path, help="a file of JSON to which these runs are added")
    parser.add_argument("--table", type=Path, help="only print what such a file says")
    chosen = parser.parse_args()
    if chosen.table is not None:
        print(table(json.loads(chosen.table.read_text())))
        return
    found: dict[str, Any] = {"machine": machine(), "runs": []}
    if chosen.out is not None and chosen.out.exists():
        there = json.loads(chosen.out.read_text())
        if there["machine"] != found["machine"]:
            sys.exit(f"{chosen.out} is of another machine or day; name another file")
        found = there
    before = found["runs"]

    def write(outcomes: Sequence[Outcome]) -> None:
        found["runs"] = before + [asdict(outcome) for outcome in outcomes]
        if chosen.out is not None:
            chosen.out.write_text(json.dumps(found, indent=1) + "\n")

    do_all(*plans(chosen.whole, chosen.busy, chosen.single), write)
    print(table(found))
    sys.exit(any(one["failed"] for one in found["runs"]))


if __name__ == "__main__":
    main()
