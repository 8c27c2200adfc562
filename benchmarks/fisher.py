"""Fisher diagonals from whole batches and from single samples, side by side.

    python -m benchmarks.fisher --device cpu

Data are noise. On a CPU the ratio counts, not the seconds.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedfor.algorithms.sharing import buffers
from fedfor.data import LabelledData, Samples
from fedfor.engines.stacking import Stacking
from fedfor.engines.vector import Trainer
from fedfor.engines.vector.fisher import Fisher
from fedfor.engines.vector.step import State
from fedfor.models import build_model

CASES = {"resnet20": (3, 32, 32), "digits-net": (3, 28, 28), "cnn": (1, 28, 28)}


def asked(name: str, shape: tuple[int, ...], clients: int, samples: int, device: str) -> Fisher:
    torch.manual_seed(0)
    data = LabelledData("noise", torch.randn(samples, *shape), torch.arange(samples) % 10, 10)
    precision = "fp32" if device == "cpu" else "bf16"
    trainer = Trainer(
        build_model(name, shape, 10),
        torch.nn.functional.cross_entropy,
        torch.device(device),
        Stacking(precision),
    )
    model = trainer.model
    row = model.layout.row(dict(model.model.named_parameters()), model.like).detach()
    held = {n: torch.stack([b] * clients) for n, b in buffers(model.model).items()}
    state = State(torch.stack([row] * clients), held, row.new_zeros(clients))
    each = [Samples(data, np.arange(samples)) for _ in range(clients)]
    return Fisher(model, state, each, trainer.data, trainer.compiler)


def seconds(run: Callable[[], Tensor], device: str) -> float:
    """The median of three, after one to warm up."""
    times = []
    for _ in range(4):
        began = time.perf_counter()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", default="cpu")
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--samples", type=int, default=16, help="of each client")
    given = options.parse_args()
    torch.set_num_threads(1)
    for name, shape in CASES.items():
        fisher = asked(name, shape, given.clients, given.samples, given.device)
        whole = seconds(fisher.of_batches, given.device)
        single = seconds(fisher.of_single_samples, given.device)
        print(f"{name}: {whole:.3f} s, {single:.3f} s one by one: {single / whole:.1f} times")


if __name__ == "__main__":
    main()
