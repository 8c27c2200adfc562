"""pfl-research's published CIFAR-10 task in pfl-research and in fedfor, on one device, in one run.

    python -m benchmarks.pfl_task --data FOLDER --json results/pfl-task.json

FOLDER holds CIFAR-10 as published: cifar-10-batches-bin/*.bin. The task is `cifar10_iid` of pfl's
benchmarks: 1,000 users of 50 images, 50 users a round, batches of 10, one epoch, SGD 0.1, a CNN of
1,626,442 parameters, the plain average of the users' models.

Speed is in clients a second: after a warm-up the two take turns, a window of rounds each, and the
median counts, once in TF32 and once in bf16, which pfl calls amp. Nothing is evaluated in a window,
and pfl has all data on the device beforehand. Then comes the test accuracy after --rounds rounds,
for several seeds; pfl's in TF32 only, since it takes minutes. Results are written as they come.
benchmarks/carry_pfl.sh takes pfl to where pip cannot.
"""

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import fedfor
from fedfor.data import DataSplit, LabelledData, Partition
from fedfor.engines.stacking import Precision

from .provenance import provenance

CONTESTANTS = ("fedfor", "pfl")
IMAGES_PER_USER, COHORT, BATCH, RATE = 50, 50, 10, 0.1
PARAMETERS = 1_626_442
PRECISIONS: tuple[Precision, ...] = ("tf32", "bf16")
WARM_UP = 5
WINDOW_ROUNDS = {"fedfor": 50, "pfl": 5}  # of the same order in seconds on a GPU


@dataclass(frozen=True)
class Task:
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    device: torch.device

    def users(self, seed: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        """The rows of each user: all images, dealt out at random."""
        rows = np.random.default_rng(seed).permutation(len(self.y))
        return list(rows.reshape(-1, IMAGES_PER_USER))

    @property
    def cohort(self) -> int:
        return min(COHORT, len(self.y) // IMAGES_PER_USER)

    def to(self, device: torch.device) -> "Task":
        parts = {name: getattr(self, name).to(device) for name in ("x", "y", "x_test", "y_test")}
        return replace(self, **parts)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def read_batches(paths: list[Path]) -> tuple[Tensor, Tensor]:
    """The official binary layout: a byte for the label, then 3 x 32 x 32 for the image."""
    raw = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, 3073)
    images = torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    return images, torch.from_numpy(raw[:, 0].astype(np.int64))


def read_task(folder: Path, samples: int | None, device: torch.device) -> Task:
    if not (folder / "test_batch.bin").exists():
        folder = folder / "cifar-10-batches-bin"
    x, y = read_batches([folder / f"data_batch_{i}.bin" for i in range(1, 6)])
    x_test, y_test = read_batches([folder / "test_batch.bin"])
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    x, x_test = (x - mean) / std, (x_test - mean) / std
    return Task(x[:samples], y[:samples], x_test[:samples], y_test[:samples], device)


def make_cnn(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)  # as pfl's benchmark does
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    return model


@torch.no_grad()
def accuracy(model: nn.Module, task: Task) -> float:
    model.eval()
    pairs = zip(task.x_test.split(1000), task.y_test.split(1000), strict=True)
    right = sum(
        int((model(x.to(task.device)).argmax(1) == y.to(task.device)).sum()) for x, y in pairs
    )
    return right / len(task.y_test)


class Pfl:
    """Any number of rounds at a time."""

    def __init__(self, task: Task, seed: int, precision: Precision = "tf32") -> None:
        from .peers.federation import PflFederation  # not needed with --only fedfor

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  (pfl draws from it)
        self.net = make_cnn(seed).to(task.device)
        there = task.to(task.device)
        users = [(there.x[rows], there.y[rows]) for rows in task.users(seed)]
        # "random" is the published sampler: it may draw a user twice in a round.
        self.federation = PflFederation(
            self.net,
            users,
            "random",
            cohort=task.cohort,
            batch_size=BATCH,
            lr=RATE,
            amp=torch.bfloat16 if precision == "bf16" else None,
        )

    def run(self, rounds: int) -> nn.Module:
        self.federation.run(rounds)
        return self.net


def run_fedfor(
    task: Task,
    seed: int,
    rounds: int,
    compiled: bool = False,
    on_round: Callable[[int], None] = lambda t: None,
    precision: Precision = "tf32",
) -> nn.Module:
    split = DataSplit(
        LabelledData("cifar10", task.x, task.y, 10),
        LabelledData("cifar10-test", task.x_test, task.y_test, 10),
    )
    history = fedfor.simulate(
        "fedavg",
        Partition(split, task.users(seed)),
        make_cnn(seed),
        rounds=rounds,
        cohort=task.cohort,
        seed=seed,
        device=task.device,
        engine="vector",
        precision=precision,
        compile="always" if compiled else "never",
        evaluate_every=rounds,
        on_round=lambda record: on_round(record["round"]),
        epochs=1,
        batch_size=BATCH,
        lr=RATE,
    )
    return history.model


class Report:
    """Written anew whenever something is added."""

    def __init__(self, path: Path | None, head: dict[str, Any]) -> None:
        self.path, self.content = path, head

    def add(self, part: str, name: str, value: float, **more: Any) -> None:
        print(f"{part}: {name}: {value:.4g}", flush=True)
        entry = self.content.setdefault(part, {}).setdefault(name, {"all": []})
        entry["all"].append(value)
        entry["mean"] = statistics.mean(entry["all"])
        entry["median"] = statistics.median(entry["all"])
        entry["deviation"] = statistics.stdev(entry["all"]) if len(entry["all"]) > 1 else None
        entry |= more
        if part == "clients_per_second":
            self.content["speed_ratio"] = self._ratios()
        if self.path is not None:
            self.path.write_text(json.dumps(self.content, indent=2) + "\n")

    def _ratios(self) -> dict[str, float]:
        """How many times as fast as pfl, for each precision that both were timed in."""
        medians = {n: e["median"] for n, e in self.content["clients_per_second"].items()}
        ours = {n.split()[1]: m for n, m in medians.items() if n.startswith("fedfor")}
        return {p: m / medians[f"pfl {p}"] for p, m in ours.items() if f"pfl {p}" in medians}


class Speed:
    """fedfor's rounds end in a callback, so pfl's windows are put between fedfor's there."""

    def __init__(
        self,
        task: Task,
        report: Report,
        window: dict[str, int],
        compiled: bool,
        precision: Precision,
    ) -> None:
        self.task, self.report, self.window = task, report, window
        self.compiled, self.precision = compiled, precision
        self.started = 0.0
        self.pfl: Pfl | None = None

    def start(self) -> None:
        self.task.synchronize()
        self.started = time.perf_counter()

    def stop(self, name: str) -> None:
        self.task.synchronize()
        seconds = time.perf_counter() - self.started
        rounds = self.window[name]
        rate = rounds * self.task.cohort / seconds
        label = f"{name} {self.precision}"
        self.report.add("clients_per_second", label, rate, rounds_in_a_window=rounds)

    def pfl_window(self) -> None:
        if self.pfl is None:
            self.pfl = Pfl(self.task, 0, self.precision)
            self.pfl.run(WARM_UP)
        self.start()
        self.pfl.run(self.window["pfl"])
        self.stop("pfl")

    def fedfor_windows(self, count: int, between: Callable[[], None]) -> None:
        def on_round(t: int) -> None:
            done = t - WARM_UP
            if not 0 <= done <= all_windows or done % self.window["fedfor"]:
                return
            if done > 0:
                self.stop("fedfor")
            if done < all_windows:
                between()
                self.start()

        all_windows = count * self.window["fedfor"]
        # One round more: the last ends with an evaluation, which no window should hold.
        rounds = WARM_UP + all_windows + 1
        run_fedfor(self.task, 0, rounds, self.compiled, on_round, self.precision)


def measure_speed(speed: Speed, windows: int, names: list[str]) -> None:
    if "fedfor" in names:
        both = "pfl" in names
        speed.fedfor_windows(windows, between=speed.pfl_window if both else lambda: None)
    else:
        for _ in range(windows):
            speed.pfl_window()


def measure_accuracy(task: Task, report: Report, rounds: int, seeds: dict[str, int]) -> None:
    """`seeds` says how many for each contestant and precision."""
    for seed in range(max(seeds.values())):
        for name in (name for name, count in seeds.items() if seed < count):
            started = time.perf_counter()
            who, precision = name.split()
            if who == "fedfor":
                model = run_fedfor(task, seed, rounds, precision=cast(Precision, precision))
            else:
                model = Pfl(task, seed).run(rounds)
            value = accuracy(model, task)
            seconds = time.perf_counter() - started
            report.add("test_accuracy", name, value, rounds=rounds, seconds_of_the_last=seconds)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pfl_task", description="pfl's CIFAR-10 task, pfl and fedfor"
    )
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=200, help="before the test (default 200)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pfl-seeds", type=int, help="fewer, since pfl takes minutes for each")
    parser.add_argument("--windows", type=int, default=5, help="0: no speed, only accuracy")
    parser.add_argument("--window-rounds", type=int, help="default: 50 of fedfor, 5 of pfl")
    parser.add_argument("--samples", type=int, help="take only the first images: for a trial")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="PATH")
    parser.add_argument("--only", choices=CONTESTANTS)
    parser.add_argument("--compile", action="store_true", help="fedfor's steps, for the windows")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--skip-accuracy", action="store_true")
    chosen = parser.parse_args()
    if (chosen.samples or 0) % IMAGES_PER_USER:
        parser.error(f"--samples must be a multiple of {IMAGES_PER_USER}, a user's images")
    return chosen


def main() -> None:
    chosen = parse()
    device = torch.device(chosen.device)
    os.environ["PFL_PYTORCH_DEVICE"] = str(device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True  # shapes never change here
    if device.type == "cpu":
        torch.set_num_threads(1)
    names = [chosen.only] if chosen.only else list(CONTESTANTS)
    versions = {"fedfor": fedfor.__version__, **({"pfl": version("pfl")} if "pfl" in names else {})}
    head = {
        **provenance("benchmarks.pfl_task"),
        "versions": versions,
        "note": "with --compile, speed is of compiled steps; accuracy is never",
    }
    task = read_task(chosen.data, chosen.samples, device)
    report = Report(chosen.json, head)
    if chosen.windows:
        given = chosen.window_rounds
        window = dict.fromkeys(CONTESTANTS, given) if given else WINDOW_ROUNDS
        for precision in chosen.precisions:
            speed = Speed(task, report, window, chosen.compile, precision)
            measure_speed(speed, chosen.windows, names)
    if not chosen.skip_accuracy:
        seeds = {f"fedfor {p}": chosen.seeds for p in chosen.precisions if "fedfor" in names}
        if "pfl" in names:
            seeds["pfl tf32"] = chosen.pfl_seeds or chosen.seeds
        measure_accuracy(task, report, chosen.rounds, seeds)


if __name__ == "__main__":
    main()
