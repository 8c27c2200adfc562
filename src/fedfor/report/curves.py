"""Learning curves with bands over seeds."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..experiments.comparison import AlgorithmResult, Comparison
from ..experiments.metrics import evaluated

# Okabe and Ito's colours, told apart with any colour vision; line styles for print without colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")
STYLES = (
    "-",
    "--",
    "-.",
    ":",
    (0, (6, 1.5)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1, 1, 1)),
)


def line_style(place: int) -> dict[str, Any]:
    """Of the line in this place: 8 colours, and beyond these another style for each."""
    shifted = place + place // len(COLOURS)
    return {"color": COLOURS[place % len(COLOURS)], "ls": STYLES[shifted % len(STYLES)]}


def curve(result: AlgorithmResult) -> tuple[list[int], list[float], list[float]]:
    """Rounds, mean accuracy in % and its deviation, over the seeds that got as far."""
    of_round: dict[int, list[float]] = {}
    for records in result.records():
        for record in evaluated(records):
            of_round.setdefault(record["round"], []).append(100 * record["accuracy"])
    rounds = sorted(of_round)
    means = [statistics.fmean(of_round[r]) for r in rounds]
    spreads = [statistics.stdev(of_round[r]) if len(of_round[r]) > 1 else 0.0 for r in rounds]
    return rounds, means, spreads


def draw_curves(comparison: Comparison, results: Sequence[AlgorithmResult], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, result in enumerate(results):
        rounds, means, spreads = curve(result)
        style = line_style(i)
        axes.plot(rounds, means, lw=1.8, label=result.label, **style)
        low = [m - s for m, s in zip(means, spreads, strict=True)]
        high = [m + s for m, s in zip(means, spreads, strict=True)]
        axes.fill_between(rounds, low, high, alpha=0.15, lw=0, color=style["color"])
    if (target := comparison.first.evaluation.target) is not None:
        axes.axhline(100 * target, color="0.5", lw=0.8, ls=(0, (1, 3)))
    axes.set_xlabel("round")
    axes.set_ylabel("test accuracy, %")
    seeds = len(comparison.config.seeds)
    axes.set_title(f"Mean over {seeds} seeds, band: one deviation", loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)
