"""Tune every method of the demo on the same grid, on seeds that the demo does not use.

    .venv/bin/python tools/tune_demo.py [FOLDER]

Four local learning rates x three values of the one setting that a method has of its own (for
those without one, the server's step size). The best mean accuracy over rounds and seeds, which
rewards speed and the end alike, wins. Writes
results/demo-tuning.json; the winners stand in src/fedfor/configs/demo.toml. Interrupted, the same
command goes on.
"""

import sys
from pathlib import Path

from fedfor import __version__
from fedfor.experiments.compare import compare
from fedfor.experiments.comparison import Comparison
from fedfor.experiments.folder import write_json
from fedfor.experiments.load import read_toml

RATES = (0.1, 0.2, 0.4, 0.8)
OWN = {
    "fedavg": ("server.lr", (1.0, 1.5, 2.0)),
    "fedprox": ("mu", (0.001, 0.01, 0.1)),
    "fedavgm": ("server.momentum", (0.3, 0.5, 0.7)),
    "scaffold": ("server.lr", (1.0, 1.5, 2.0)),
    "fedfor": ("alpha", (5.0, 10.0, 20.0)),
}
SEEDS = [100, 101, 102]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo-tuning")
    grid = {
        method: [f"{method},{key}={v},training.lr={lr}" for v in values for lr in RATES]
        for method, (key, values) in OWN.items()
    }
    tables = read_toml("demo")
    tables["engine"] = "serial"  # the reference
    tables["compare"] = {"algorithms": [a for labels in grid.values() for a in labels]}
    tables["compare"]["seeds"] = SEEDS
    comparison = Comparison(tables, folder)
    compare(
        comparison, on_end=lambda e: print(e.run.label, e.run.seed, e.problem or "", flush=True)
    )
    means = {r.label: r.spread("mean_over_rounds").mean for r in comparison.results()}
    winners = {m: max(labels, key=lambda a: means[a] or 0.0) for m, labels in grid.items()}
    write_json(
        Path("results/demo-tuning.json"),
        {
            "command": "python tools/tune_demo.py",
            "fedfor": __version__,
            "metric": "accuracy, mean over rounds and seeds; null where a seed diverged",
            "seeds": SEEDS,
            "settings": comparison.first.model_dump(mode="json", exclude={"algorithm", "seed"}),
            "winners": winners,
            "grid": means,
        },
    )
    for method, label in winners.items():
        print(f"{method}: {label}  {100 * (means[label] or 0):.1f} %")


if __name__ == "__main__":
    main()
