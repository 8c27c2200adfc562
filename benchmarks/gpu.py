"""The vector engine on one GPU: how fast, how far from the memory's speed, how many clients.

    python -m benchmarks.gpu --json results/gpu.json

A full local step of ResNet20 (gather, forward, backward, penalty, update) with FedFOR and with
FedAvg; where its time goes; the serial engine and a plain loop on the same work; and cohorts of up
to 10,000 clients of a small CNN. Data are noise: no figure here depends on what they show.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from fedfor.algorithms import algorithm
from fedfor.data import DataSplit, IidDraws, LabelledData, Samples
from fedfor.engines import Job, SerialEngine, Training
from fedfor.engines.stacking import Stacking
from fedfor.engines.vector import VectorEngine
from fedfor.experiments.simulation import Simulation
from fedfor.models import build_model
from fedfor.protocol import Server

from .provenance import provenance

BATCH = 128
FAST = Stacking("bf16", compile="always")
PASSES, ACTIVATIONS = 13, 190_000
"""A step reads or writes each of a sample's activations in bf16 about so many times."""


def noise(shape: tuple[int, ...], count: int) -> LabelledData:
    draw = torch.Generator().manual_seed(0)
    return LabelledData(
        "noise", torch.rand(count, *shape, generator=draw), torch.arange(count) % 10, 10
    )


class Step:
    """A local step of ResNet20 for some clients, timed inside whole rounds."""

    def __init__(self, name: str, clients: int, data: LabelledData, vector: bool) -> None:
        torch.manual_seed(0)
        self.clients, self.data = clients, data
        model = build_model("resnet20", (3, 32, 32), 10)
        chosen, training = algorithm(name), Training(batch_size=BATCH, lr=0.01)
        self.engine: Any = (
            VectorEngine(model, chosen, training, 0, device="cuda", stacking=FAST)
            if vector
            else SerialEngine(model, chosen, training, 0, device="cuda")
        )
        self.server = Server(chosen, model, clients)
        self.draw = np.random.default_rng(0)
        self.round(2)
        self.round(2)

    def round(self, steps: int) -> float:
        """The seconds of a round of so many steps, aggregation left out."""
        jobs = [
            Job(k, Samples(self.data, self.draw.choice(len(self.data), BATCH * steps, False)))
            for k in range(self.clients)
        ]
        message = self.server.message()
        torch.cuda.synchronize()
        began = time.perf_counter()
        results = [r.stacked() for r in self.engine.train(message, jobs)]
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        self.server.aggregate([r.reply for r in results], 0.01)
        return seconds

    def measure(self, few: int, many: int, times: int = 5) -> dict[str, float]:
        """A step is what more of them add to a round; a round is all of it."""
        short = statistics.median(self.round(few) for _ in range(times))
        long = statistics.median(self.round(many) for _ in range(times))
        a_step = (long - short) / (many - few)
        images = self.clients * BATCH
        return {
            "step_ms": 1000 * a_step,
            "images_a_second": images / a_step,
            "images_a_second_in_whole_rounds": images * many / long,
        }


KINDS: dict[str, Callable[[str], bool]] = {
    "convolution, forward and input gradient": lambda n: n.startswith("correlate"),
    "convolution, weight gradient": lambda n: n.startswith(("weight_gradient", "add_parts")),
    "reductions (batch norm), compiled": lambda n: n.startswith(("triton_red", "triton_per")),
    "elementwise, compiled": lambda n: n.startswith("triton_poi"),
}


def where_time_goes(step: Step) -> dict[str, float]:
    """The share of each kind of kernel in a round, in %."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        step.round(10)
    spent: dict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        if event.is_user_annotation:  # a range of kernels, which are counted themselves
            continue
        kind = next((k for k, is_it in KINDS.items() if is_it(event.key)), "everything else")
        spent[kind] += event.self_device_time_total
    total = sum(spent.values())
    return {kind: 100 * t / total for kind, t in sorted(spent.items(), key=lambda i: -i[1])}


def copy_speed() -> float:
    """Bytes a second of a large copy, read and written."""
    source = torch.empty(2**32, dtype=torch.uint8, device="cuda").random_()
    into, best = torch.empty_like(source), 1e9
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        into.copy_(source)
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / 1000)
    return 2 * source.numel() / best


def plain_loop(data: LabelledData, steps: int = 30) -> float:
    """Images a second of one client in a loop as people write it, data on the device, TF32."""
    torch.manual_seed(0)
    model = build_model("resnet20", (3, 32, 32), 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = data.x.cuda(), data.y.cuda()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    best = 1e9
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for step in range(steps):
            batch = slice(step * BATCH, (step + 1) * BATCH)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return steps * BATCH / best


def cohorts(sizes: list[int]) -> list[dict[str, float]]:
    """Rounds of a small CNN with more and more clients on one card."""
    data = noise((1, 28, 28), 20_000)
    rows = []
    for size in sizes:
        torch.cuda.empty_cache()
        torch.manual_seed(0)
        model = build_model("cnn", (1, 28, 28), 10)
        chosen, training = algorithm("fedfor"), Training(batch_size=16)
        engine = VectorEngine(model, chosen, training, 0, device="cuda", stacking=Stacking("tf32"))
        population = IidDraws(DataSplit(data, data), 10**6, 0, 64)
        simulation = Simulation(population, model, chosen, training, engine, cohort=size, seed=0)
        simulation.round(evaluate=False)
        simulation.round(evaluate=False)
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(3):
            torch.cuda.synchronize()
            began = time.perf_counter()
            simulation.round(evaluate=False)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        rows.append(
            {
                "clients": size,
                "at_once": min(size, engine.trainer.most_lanes or size),
                "ms_a_client": 1000 * statistics.median(times) / size,
                "peak_gib": torch.cuda.max_memory_reserved() / 2**30,
            }
        )
        print(rows[-1], flush=True)
        del engine, simulation
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path, required=True)
    options.add_argument("--clients", type=int, nargs="+", default=[80, 160])
    options.add_argument("--cohorts", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    asked = options.parse_args()
    speed = copy_speed()
    floor = speed / (PASSES * ACTIVATIONS * 2)
    result: dict[str, Any] = {
        **provenance("benchmarks.gpu"),
        "copy_bytes_a_second": speed,
        "floor_images_a_second": floor,
        "steps": [],
    }

    def keep() -> None:
        asked.json.write_text(json.dumps(result, indent=2) + "\n")

    data = noise((3, 32, 32), 50_000)
    for clients in asked.clients:
        found = {}
        for name in ("fedavg", "fedfor"):
            step = Step(name, clients, data, vector=True)
            found[name] = step.measure(10, 30)
            row = {"algorithm": name, "clients": clients, **found[name]}
            result["steps"].append(row)
            print(json.dumps(row), flush=True)
        if "profile" not in result:
            result["profile"] = where_time_goes(step)
            print(json.dumps(result["profile"], indent=2), flush=True)
        del step
        over = 100 * (found["fedfor"]["step_ms"] / found["fedavg"]["step_ms"] - 1)
        result[f"penalty_costs_percent_{clients}"] = over
        print(f"FedFOR's step takes {over:.1f} % more than FedAvg's", flush=True)
        keep()
    result["cohorts"] = cohorts(asked.cohorts)
    keep()
    serial = Step("fedfor", 4, data, vector=False).measure(2, 6, times=3)
    best = max(s["images_a_second"] for s in result["steps"] if s["algorithm"] == "fedfor")
    result["serial"] = serial
    result["times_serial"] = best / serial["images_a_second"]
    result["plain_loop_images_a_second"] = plain_loop(data)
    keep()
    print(f"serial: {serial['images_a_second']:,.0f} images a second")
    print(f"plain loop: {result['plain_loop_images_a_second']:,.0f} images a second")
    print(f"FedFOR: {best:,.0f} images a second, {result['times_serial']:.1f} times serial")
    print(f"that is {100 * best / floor:.0f} % of what the memory allows, {floor:,.0f}")


if __name__ == "__main__":
    main()
