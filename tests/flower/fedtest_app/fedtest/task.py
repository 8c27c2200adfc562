"""Small made data and a small model, the same for the federation and the simulator."""

import torch
from torch import nn

from fedfor import Training
from fedfor.data import DataSplit, LabelledData, Population, iid_split
from fedfor.models import build_model
from fedfor.randomness import torch_seeded

SEED = 3
TRAINING = Training(epochs=2, batch_size=5, lr=0.05)


def split() -> DataSplit:
    draw = torch.Generator().manual_seed(0)

    def part(name: str, n: int) -> LabelledData:
        y = torch.arange(n) % 3
        return LabelledData(name, torch.randn(n, 6, generator=draw) + y[:, None], y, 3)

    return DataSplit(part("made (train)", 60), part("made (test)", 30))


def people(clients: int) -> Population:
    return iid_split(split(), clients, SEED)


def new_model() -> nn.Module:
    torch.set_num_threads(1)
    with torch_seeded(SEED, "init"):
        return build_model("mlp", (6,), 3)
