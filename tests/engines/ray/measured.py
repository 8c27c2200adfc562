"""A driver in a process of its own that tells its memory, and that of its workers, each round."""

import json
import sys

import fedfor
from fedfor.data import IidDraws, digits
from fedfor.memory import resident_bytes


def main(clients: int, cohort: int, rounds: int) -> None:
    told: list[tuple[int, list[int]]] = []
    fedfor.simulate(
        "fedfor",
        IidDraws(digits(), clients, seed=0, samples_per_client=8),
        "cnn",
        rounds=rounds,
        cohort=cohort,
        engine="ray",
        workers=2,
        evaluate_every=rounds,
        on_round=lambda r: told.append((resident_bytes(), [w["memory"] for w in r["workers"]])),
        batch_size=8,
        lr=0.05,
    )
    print(json.dumps(told))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
