"""A driver in a process of its own that tells its memory each round, and that of its workers who
had a part in it."""

import gc
import json
import sys
from typing import Any

import fedfor
from fedfor.data import IidDraws, digits
from fedfor.memory import resident_bytes


def main(clients: int, cohort: int, rounds: int) -> None:
    gc.set_threshold(700)  # as it is elsewhere
    told: list[tuple[int, dict[int, int]]] = []

    def tell(record: dict[str, Any]) -> None:
        trained = {w["worker"]: w["memory"] for w in record["workers"] if w["clients"]}
        told.append((resident_bytes(), trained))

    fedfor.simulate(
        "fedfor",
        IidDraws(digits(), clients, seed=0, samples_per_client=8),
        "cnn",
        rounds=rounds,
        cohort=cohort,
        engine="ray",
        workers=2,
        evaluate_every=rounds,
        on_round=tell,
        batch_size=8,
        lr=0.05,
    )
    print(json.dumps(told))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
