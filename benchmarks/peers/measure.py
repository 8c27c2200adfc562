"""One contestant in a process of its own:

    python -m benchmarks.peers.measure NAME MODEL ROUNDS CLIENTS FILE

A process started by multiprocessing will not do: pfl only works in one called MainProcess.
"""

import json
import os
import sys
from pathlib import Path

import torch

from .contestants import CONTESTANTS
from .task import final_loss


def main(name: str, model: str, rounds: str, clients: str, file: str) -> None:
    torch.set_num_threads(1)
    ends, trained = CONTESTANTS[name].run(model, int(rounds), int(clients))
    if os.environ.get("RANK", "0") == "0":  # torchrun's other workers say the same
        Path(file).write_text(json.dumps({"ends": ends, "loss": final_loss(trained, int(clients))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
