"""How far each reading of prior shift is from the paper, in points, and the root mean square.

python -m tools.fit_readings results/prior-shift-readings.json
"""

import math
import sys
from pathlib import Path

from fedfor.errors import FedforError
from fedfor.paper.numbers import reported
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import Point


def offsets(results: Results) -> dict[str, list[float]]:
    """For each row: ours less the paper's, at every point."""
    points = results.study.points
    return {
        row.name: [_off(results, row.name, row.paper or "", point) for point in points]
        for row in results.study.rows
    }


def _off(results: Results, row: str, method: str, point: Point) -> float:
    mean = results.spread(point.name, row, "best").mean
    paper = reported("prior_shift_cifar10", method, point.epochs, "best_half", point.rounds)
    if mean is None or paper is None:
        sys.exit(f"there is nothing to compare at {point.name} of {row}")
    return 100 * mean - paper.mean


def rms(off: list[float]) -> float:
    return math.sqrt(sum(o * o for o in off) / len(off))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("name one file of results, such as results/prior-shift-readings.json")
    try:
        results = load_results([Path(sys.argv[1])])
    except FedforError as error:
        sys.exit(str(error))
    titles = [point.name for point in results.study.points]
    print("| ours less the paper's |", " | ".join(titles), "| root mean square |")
    print("|---" * (len(titles) + 2) + "|")
    for row, off in offsets(results).items():
        print(f"| {row} |", " | ".join(f"{o:+.1f}" for o in off), f"| {rms(off):.2f} |")


if __name__ == "__main__":
    main()
