"""How far each reading of prior shift is from the paper: root mean squares over E, in points.

python -m tools.fit_readings results/prior-shift-readings.json
"""

import math
import sys
from pathlib import Path

from fedfor.paper.numbers import reported
from fedfor.paper.results import Results, load_results

METHODS = ("FedAvg", "FedFOR")


def distances(results: Results) -> dict[str, dict[str, float]]:
    """For each reading, what comes after the comma of a row's name: its distance from each row of
    the paper."""
    found: dict[str, dict[str, float]] = {}
    for row in results.study.rows:
        method, _, reading = row.name.partition(", ")
        found.setdefault(reading, {})[method] = math.sqrt(
            sum(_off(results, row.name, method, place) ** 2 for place in range(5)) / 5
        )
    return found


def _off(results: Results, row: str, method: str, place: int) -> float:
    point = results.study.points[place]
    mean = results.spread(point.name, row, "best").mean
    assert mean is not None
    paper = reported("prior_shift_cifar10", method, point.epochs, "best_half", point.rounds)
    assert paper is not None
    return 100 * mean - paper.mean


def main() -> None:
    print("| |", " | ".join(METHODS), "|")
    print("|---" * (len(METHODS) + 1) + "|")
    for reading, of in distances(load_results([Path(sys.argv[1])])).items():
        print(f"| {reading} |", " | ".join(f"{of[m]:.2f}" for m in METHODS), "|")


if __name__ == "__main__":
    main()
