"""Does bf16 (or TF32, if asked for) change what comes out? Accuracy curves on CIFAR-10.

    python -m benchmarks.precision --data FOLDER --json results/precision.json

The paper's prior shift (ResNet20, 10 clients of a long tail a round, batch 128, SGD 0.01), FedAvg
and FedFOR, three seeds, all runs of a precision in one stack. For each algorithm: the accuracies
by round, how far the means of two precisions lie apart at most, and the deviation over seeds there.
FOLDER holds CIFAR-10 as published: cifar-10-batches-bin/*.bin. Precisions that the JSON already
holds are not run again.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedfor.algorithms import algorithm
from fedfor.data import DataSplit, LabelledData, LongTail
from fedfor.engines import Training
from fedfor.engines.stacking import Precision, Stacking
from fedfor.engines.vector import Trainer, VectorEngine
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.together import drive_together
from fedfor.models import build_model
from fedfor.randomness import torch_seeded

from .pfl_task import read_task
from .provenance import provenance

ALGORITHMS = ("fedavg", "fedfor")


def resnet(seed: int) -> nn.Module:
    with torch_seeded(seed, "init"):
        return build_model("resnet20", (3, 32, 32), 10)


def curves(
    split: DataSplit, precision: Precision, rounds: int, seeds: int, every: int
) -> dict[str, list[list[float]]]:
    """For each algorithm and seed, the accuracy of every so manieth round."""
    device = torch.device("cuda")
    how = Stacking(precision, compile="never")
    trainer = Trainer(resnet(0).to(device), nn.functional.cross_entropy, device, how)
    training = Training(batch_size=128, lr=0.01)
    runs, found = [], {name: [[] for _ in range(seeds)] for name in ALGORITHMS}
    for name in ALGORITHMS:
        for seed in range(seeds):
            model, chosen = resnet(seed), algorithm(name)
            engine = VectorEngine(model, chosen, training, seed, device=device, trainer=trainer)
            population = LongTail(split, 10**10, seed)
            runs.append(
                (
                    found[name][seed],
                    Simulation(population, model, chosen, training, engine, cohort=10, seed=seed),
                )
            )
    for t in range(1, rounds + 1):

        def note(place: int, record: Any) -> None:
            if not isinstance(record, dict):
                raise record
            if "accuracy" in record:
                runs[place][0].append(record["accuracy"])

        drive_together([run.steps(evaluate=t % every == 0) for _, run in runs], note)
    return found


def compared(of: dict[str, dict[str, list[list[float]]]]) -> list[Record]:
    """How far each precision lies from the first one, beside the spread of seeds."""
    reference, *others = of
    rows = []
    for name in ALGORITHMS:
        base = of[reference][name]
        for other in others:
            means = [
                [statistics.mean(p) for p in zip(*c, strict=True)] for c in (base, of[other][name])
            ]
            gaps = [abs(a - b) for a, b in zip(*means, strict=True)]
            spread = [statistics.stdev(p) for p in zip(*base, strict=True)]
            rows.append(
                {
                    "algorithm": name,
                    "precision": other,
                    "mean_gap": statistics.mean(gaps),
                    "mean_deviation_of_seeds": statistics.mean(spread),
                    "last": means[1][-1],
                    f"last_in_{reference}": means[0][-1],
                }
            )
    return rows


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.precision")
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--json", type=Path, required=True)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    asked = options.parse_args()
    task = read_task(asked.data, None, torch.device("cuda"))
    split = DataSplit(
        LabelledData("CIFAR-10 (train)", task.x, task.y, 10),
        LabelledData("CIFAR-10 (test)", task.x_test, task.y_test, 10),
    )
    result: dict[str, Any] = {
        **provenance("benchmarks.precision"),
        "seconds": {},
        "curves": {},
    }
    if asked.json.exists():
        before = json.loads(asked.json.read_text())
        result |= {key: before[key] for key in ("seconds", "curves")}
    of: dict[str, dict[str, list[list[float]]]] = result["curves"]
    for precision in (p for p in asked.precisions if p not in of):
        began = time.perf_counter()
        of[precision] = curves(split, precision, asked.rounds, asked.seeds, every=2)
        result["seconds"][precision] = round(time.perf_counter() - began, 1)
        result["compared"] = compared(of)
        print(json.dumps(result["seconds"]), json.dumps(result["compared"], indent=2), flush=True)
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
