"""Seconds a round on two cores, beside other frameworks, as ratios within one run.

    python -m benchmarks.peers

from the root of the repository; README.md beside this file says what to install. Contestants take
turns, each in a process of its own, several times over, so that a busy machine hits all alike; the
best round of each counts. Prints ratios; results/peers-cpu.json has the seconds too.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..provenance import provenance
from . import task
from .contestants import CONTESTANTS

ROOT = Path(__file__).parents[2]
WARM_UP = 3
PACKAGES = ("fedfor", "torch", "numpy", "pfl", "flwr", "ray")

Turn = dict[str, Any]


def take_turn(name: str, model: str, rounds: int, clients: int) -> Turn:
    """The seconds of `rounds` rounds and the loss after them, or why there are none."""
    if CONTESTANTS[name].missing:
        package = CONTESTANTS[name].package
        how = "pip install -r benchmarks/peers/requirements.txt"
        return {"why": f"{package} is not installed: {how}"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "turn.json")
        # One round more: the last may end with an evaluation.
        words = [name, model, str(WARM_UP + rounds + 1), str(clients), str(file)]
        done = subprocess.run(
            [sys.executable, *CONTESTANTS[name].launcher, "-m", "benchmarks.peers.measure", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            return {"why": _reason(done.stderr)}
        turn = json.loads(file.read_text())
    seconds = [b - a for a, b in itertools.pairwise(turn["ends"])]
    return {"seconds": seconds[WARM_UP - 1 : -1], "loss": turn["loss"]}


def _reason(said: str) -> str:
    """The last line that names an error: launchers say more after it."""
    lines = said.strip().splitlines() or ["no word"]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


def summary(turns: list[Turn]) -> Turn:
    """Over all turns of a contestant that did not fail; those that did are told."""
    reasons = [turn["why"] for turn in turns if "why" in turn]
    done = [turn for turn in turns if "why" not in turn]
    told = {"failed_turns": len(reasons), "why": reasons[0]} if reasons else {}
    if not done:
        return told
    seconds = [s for turn in done for s in turn["seconds"]]
    return {
        "best": min(seconds),
        "median": statistics.median(seconds),
        "best_of_each_turn": [min(turn["seconds"]) for turn in done],
        "loss": done[-1]["loss"],
        **told,
    }


def table(results: dict[str, dict[str, Turn]], reference: str, names: Sequence[str]) -> Table:
    shown = Table(title=f"Seconds a round, as multiples of {reference}")
    shown.add_column("")
    for model in results:
        shown.add_column(model, justify="right")
        shown.add_column("final loss", justify="right")
    for name in names:
        cells = []
        for model in results:
            result = results[model][name]
            if "best" not in result:
                cells += ["-", ""]
            else:
                cells += [f"{result['ratio']:.2f}", f"{result['loss']:.3f}"]
        shown.add_row(name, *cells)
    return shown


def markdown(written: Turn) -> str:
    """What a file of results has, for a page: ratios, and below them what they are of."""
    results = written["seconds_a_round"]
    names = list(next(iter(results.values())))
    lines = ["| | " + " | ".join(results) + " |", "|---|" + "---:|" * len(results)]
    for name in names:
        ratios = [of_model[name].get("ratio") for of_model in results.values()]
        cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    seconds = [f"{of_model[names[0]]['best']:.2f}" for of_model in results.values()]
    peers = ("torch", "ray", "flwr")
    of = [f"{name} {written['versions'][name]}" for name in peers if written["versions"][name]]
    task = written["task"]
    lines += [
        "",
        f"Seconds a round, the best of each, as multiples of {names[0]} ({', '.join(seconds)} s); "
        f"{task['clients']} clients of {task['samples_per_client']} samples. {written['cores']} "
        f"cores, {', '.join(of)}, commit {written['commit']}, {written['date']}.",
    ]
    return "\n".join(lines)


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--turns", type=int, default=4, help="of each contestant (default 4)")
    parser.add_argument("--rounds", type=int, default=15, help="timed in a turn (default 15)")
    parser.add_argument("--clients", type=int, default=10, help="all called (default 10)")
    parser.add_argument("--models", nargs="+", choices=task.MODELS, default=task.MODELS)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=CONTESTANTS, default=list(CONTESTANTS),
        help="contestants; the first is what others are compared with (default: all)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, default=ROOT / "results/peers-cpu.json")
    parser.add_argument("--show", type=Path, help="measure nothing: print what a file has")
    chosen = parser.parse_args()
    if chosen.show is not None:
        print(markdown(json.loads(chosen.show.read_text())))
        return

    console = Console()
    turns: dict[tuple[str, str], list[Turn]] = {}
    for number in range(1, chosen.turns + 1):
        for model, name in itertools.product(chosen.models, chosen.only):
            console.print(f"turn {number} of {chosen.turns}: {model}, {name}", style="dim")
            turn = take_turn(name, model, chosen.rounds, chosen.clients)
            turns.setdefault((model, name), []).append(turn)
    results = {
        model: {name: summary(turns[model, name]) for name in chosen.only}
        for model in chosen.models
    }
    reference = chosen.only[0]
    for of_model in results.values():
        if "best" not in of_model[reference]:
            sys.exit(f"nothing to compare with: {reference}: {of_model[reference]['why']}")
        for result in of_model.values():
            if "best" in result:
                result["ratio"] = result["best"] / of_model[reference]["best"]
    console.print(table(results, reference, chosen.only))
    for name in chosen.only:
        for why in {result[name]["why"] for result in results.values() if "why" in result[name]}:
            console.print(f"{name}: {why}", soft_wrap=True, markup=False)
    written = {
        **provenance("benchmarks.peers"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: installed(package) for package in PACKAGES},
        "task": {
            "clients": chosen.clients,
            "samples_per_client": task.SAMPLES,
            "batch_size": task.BATCH,
            "lr": task.RATE,
            "shape": task.SHAPE,
        },
        "seconds_a_round": results,
    }
    chosen.json.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
