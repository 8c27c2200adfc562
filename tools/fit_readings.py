"""How far each reading of prior shift is from the paper: root mean squares over E, in points.

python -m tools.fit_readings results/prior-shift-readings.json
"""

import math
import sys
from pathlib import Path

from fedfor.errors import FedforError
from fedfor.paper.numbers import reported
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import Point

METHODS = ("FedAvg", "FedFOR")


def distances(results: Results) -> dict[str, dict[str, float]]:
    """For each reading, what comes after the comma of a row's name: its distance from each row of
    the paper."""
    found: dict[str, dict[str, float]] = {}
    for row in results.study.rows:
        method, _, reading = row.name.partition(", ")
        off = [_off(results, row.name, method, point) for point in results.study.points]
        found.setdefault(reading, {})[method] = math.sqrt(sum(o * o for o in off) / len(off))
    return found


def _off(results: Results, row: str, method: str, point: Point) -> float:
    mean = results.spread(point.name, row, "best").mean
    paper = reported("prior_shift_cifar10", method, point.epochs, "best_half", point.rounds)
    if mean is None or paper is None:
        sys.exit(f"there is nothing to compare at {point.name} of {row}")
    return 100 * mean - paper.mean


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("name one file of results, such as results/prior-shift-readings.json")
    try:
        results = load_results([Path(sys.argv[1])])
    except FedforError as error:
        sys.exit(str(error))
    print("| |", " | ".join(METHODS), "|")
    print("|---" * (len(METHODS) + 1) + "|")
    for reading, of in distances(results).items():
        print(f"| {reading} |", " | ".join(f"{of[m]:.2f}" for m in METHODS), "|")


if __name__ == "__main__":
    main()
