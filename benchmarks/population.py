"""Time and memory of a run against the size of the population, as ratios within one run.

    .venv/bin/python benchmarks/population.py

50 rounds of 10 clients each, with 10^3 and with 10^10 clients, in processes of their own and in
turn, best of three. Prints how the times of a round compare, the growth of peak resident memory
from round 5 to 49, and the state on clients; writes results/population.json. No figure here is a
speed: this is one machine against itself.
"""

import itertools
import json
import multiprocessing
import os
import resource
import statistics
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent

ROUNDS, REPEATS = 50, 3


def resident() -> int:
    """Peak resident memory of this process in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(clients: int, name: str) -> dict[str, float]:
    import torch

    import fedfor

    torch.set_num_threads(1)
    population = fedfor.data.LongTail(fedfor.data.digits(), clients, seed=0, share=0.3)
    marks: list[tuple[float, int]] = []
    history = fedfor.simulate(
        name,
        population,
        "cnn",
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        on_round=lambda record: marks.append((time.perf_counter(), resident())),
    )
    seconds = [b - a for (a, _), (b, _) in itertools.pairwise(marks[4:])]
    return {
        "seconds_a_round": statistics.median(seconds),
        "growth_kib": marks[-2][1] - marks[4][1],
        "state_bytes": history.records[-1]["state_bytes"],
        "clients_with_state": history.records[-1]["clients_with_state"],
    }


def main() -> None:
    context = multiprocessing.get_context("spawn")
    best: dict[tuple[str, int], dict[str, float]] = {}
    for _ in range(REPEATS):
        for name in ("fedfor", "scaffold"):
            for clients in (10**3, 10**10):
                with context.Pool(1) as pool:
                    result = pool.apply(measure, (clients, name))
                before = best.get((name, clients))
                if before is None or result["seconds_a_round"] < before["seconds_a_round"]:
                    best[name, clients] = result
    ratios = {}
    for name in ("fedfor", "scaffold"):
        few, many = (best[name, n].pop("seconds_a_round") for n in (10**3, 10**10))
        ratios[name] = round(many / few, 2)
        print(f"{name}: a round among 1e10 clients takes {ratios[name]} times one among 1e3")
    memory = {f"{name}, {clients:.0e} clients": best[name, clients] for name, clients in best}
    print(json.dumps(memory, indent=2))
    result = {
        "command": "python benchmarks/population.py",
        "torch": version("torch"),
        "cores": os.cpu_count(),
        "time_of_a_round_1e10_over_1e3": ratios,
        "memory": memory,
    }
    (ROOT / "results/population.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
