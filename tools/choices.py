"""Print which method was first in each situation that was measured, or what methods cost.

    python -m tools.choices first
    python -m tools.choices costs

The tables of docs/choosing.md; figures are accuracies in %.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedfor.algorithms import PRESETS, algorithm
from fedfor.paper.results import Results, load_results
from fedfor.report.algorithms import cost_row

RESULTS = Path(__file__).parent.parent / "results"
PLAIN = "FedAvg"

Scores = Mapping[str, Sequence[float]]
"""Of each method, one accuracy for each seed."""


@dataclass(frozen=True)
class Situation:
    clients: str
    data: str
    file: str
    points: Mapping[str, str]
    """Names of the study's points, and the local epochs there."""
    tuned: bool = False
    """Whether the file has a grid, of which the best setting of each method is taken."""


EPOCHS = {f"E={e}": str(e) for e in (1, 2, 4, 8, 16)}
SITUATIONS = (
    Situation("nobody twice", "CIFAR-10", "prior-shift.json", EPOCHS),
    Situation("nobody twice", "MNIST-M", "prior-shift-mnist-m.json", EPOCHS),
    Situation("1 in 20 again", "CIFAR-10", "statefulness-tuning.json", {"chance 0.05": "2"}, True),
    Situation("all each round", "CIFAR-10", "statefulness-tuning.json", {"chance 1": "2"}, True),
)


def first_table() -> str:
    rows = []
    for s in SITUATIONS:
        results = load_results([RESULTS / s.file])
        for point, epochs in s.points.items():
            row = [f"{s.clients}, {s.data}", epochs, str(len({o.seed for o in results.cells}))]
            for metric in ("best", "late"):
                row += _cells(_scores(results, point, metric, s.tuned))
            rows.append(row)
    head = ["clients, data", "E", "seeds"]
    for words in ("best round", "last rounds"):
        head += [f"{words}: first", "best other", PLAIN]
    return _markdown(head, rows)


def costs_table() -> str:
    rows = [[name, *cost_row(algorithm(name))[3:]] for name in PRESETS if "+" not in name]
    return _markdown(["", "down", "down, in a silo", "up", "kept on a client"], rows)


def _scores(results: Results, point: str, metric: str, tuned: bool) -> Scores:
    found: dict[str, list[float]] = {}
    for row in results.rows:
        figures = [o.metrics.get(metric) for o in results.of(point, row) if not o.diverged]
        scores = [f for f in figures if f is not None]
        name = _method(row) if tuned else row
        if scores and statistics.fmean(scores) > statistics.fmean(found.get(name, [0.0])):
            found[name] = scores
    return found


def _method(row: str) -> str:
    """Without the setting: both strengths of FedFOR are FedFOR."""
    return row.split(",")[0]


def _cells(scores: Scores) -> list[str]:
    """The first, the best of other methods, and FedAvg; what the seeds do not settle is level."""
    means = {name: statistics.fmean(of_seeds) for name, of_seeds in scores.items()}
    first = max(means, key=means.__getitem__)
    rivals = [name for name in means if _method(name) != _method(first)]
    second = max(rivals, key=means.__getitem__)
    gains = [a - b for a, b in zip(scores[first], scores[second], strict=True)]
    level = len(gains) > 1 and statistics.fmean(gains) <= statistics.stdev(gains)
    words = [f"{name} {100 * means[name]:.1f}" for name in (first, second)]
    return [words[0], words[1] + (", level" if level else ""), f"{100 * means[PLAIN]:.1f}"]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("first", "costs"))
    print(first_table() if parser.parse_args().table == "first" else costs_table())


if __name__ == "__main__":
    main()
