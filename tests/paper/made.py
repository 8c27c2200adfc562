"""A small study on bundled data, and results made by hand."""

from pathlib import Path

from fedfor.paper.results import Outcome, Results
from fedfor.paper.study import Study

MINI = """
title = "Mini"
table = "prior_shift_cifar10"
seeds = [0, 1]
points = [
  { name = "E=1", epochs = 1, half = 1, rounds = 2 },
  { name = "E=2", epochs = 2, half = 1, rounds = 2 },
]
rows = [
  { name = "FedAvg", algorithm = "fedavg", paper = "FedAvg" },
  { name = "FedFOR, published", algorithm = "fedfor-paper", paper = "FedFOR" },
]
[config.data]
name = "digits"
[config.population]
share = 0.5
cohort = 3
[config.model]
name = "linear"
[config.training]
batch_size = 64
"""


def mini(tmp_path: Path) -> Path:
    path = tmp_path / "mini.toml"
    path.write_text(MINI)
    return path


def study() -> Study:
    return Study.model_validate(
        {
            "name": "made",
            "title": "Made by hand",
            "table": "prior_shift_cifar10",
            "points": [
                {"name": "E=1", "epochs": 1, "half": 100, "rounds": 200},
                {"name": "E=8", "epochs": 8, "half": 50, "rounds": 100},
            ],
            "rows": [
                {"name": "FedAvg", "algorithm": "fedavg", "paper": "FedAvg"},
                {"name": "FedAvgM", "algorithm": "fedavgm"},
                {"name": "FedFOR", "algorithm": "fedfor-paper", "paper": "FedFOR"},
            ],
            "config": {"evaluation": {"target": 0.5}},
        }
    )


BESTS = {
    ("E=1", "FedAvg"): (0.40, 0.42, 0.44),
    ("E=1", "FedAvgM"): (0.41, 0.41, 0.41),
    ("E=1", "FedFOR"): (0.45, 0.47, 0.49),
    ("E=8", "FedAvg"): (0.60, 0.60, 0.60),
    ("E=8", "FedAvgM"): (0.61, None, 0.61),
    ("E=8", "FedFOR"): (0.70, 0.71, 0.72),
}


def results() -> Results:
    """FedAvgM's second seed diverges at E=8; nobody reaches the target at E=1."""
    outcomes = []
    for (point, row), bests in BESTS.items():
        epochs = 1 if point == "E=1" else 8
        for seed, best in enumerate(bests):
            value = 0.1 if best is None else best
            metrics: dict[str, float | None] = {
                "best_half": value / 2,
                "best": value,
                "rounds_to_target": 10.0 + seed if value >= 0.5 else None,
                "state_bytes": 2**20 * (seed + 1.0),
                "down_cross_device": 3 * 2**20,
                "local_steps": 10.0 * epochs,
                "seconds": 2.0,
            }
            half, rounds = (100, 200) if epochs == 1 else (50, 100)
            curve = tuple(round(100 * value * (t + 1) / 10, 2) for t in range(10))
            outcomes.append(
                Outcome(
                    point=point,
                    row=row,
                    seed=seed,
                    algorithm=row.lower(),
                    epochs=epochs,
                    rounds=rounds,
                    half=half,
                    metrics=metrics,
                    accuracy=curve,
                    made=0,
                    diverged=best is None,
                    shifts=(3, 7),
                )
            )
    made = [{"command": "fedfor reproduce made", "commit": "abc", "device": "a GPU"}]
    notes = ["svhn: 1,083 of 73,257 training images"]
    return Results(study=study(), made=made, notes=notes, cells=outcomes)


def changed(of: Results, **changes: object) -> Results:
    """The same with some parts replaced, checked anew."""
    return Results(**{**{k: getattr(of, k) for k in Results.model_fields}, **changes})  # type: ignore[arg-type]
