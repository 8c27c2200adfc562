import pytest
import torch

from fedfor.data import DataSplit, LabelledData

torch.set_num_threads(1)


def made_data(
    samples: int = 60, classes: int = 3, shape: tuple[int, ...] = (1, 8, 8), seed: int = 0
) -> DataSplit:
    """Small random images whose mean tells the class, so that there is something to learn."""
    g = torch.Generator().manual_seed(seed)

    def part(name: str, n: int) -> LabelledData:
        y = torch.arange(n) % classes
        x = torch.randn(n, *shape, generator=g) + y.view(-1, *(1 for _ in shape))
        return LabelledData(name, x, y, classes)

    return DataSplit(part("made (train)", samples), part("made (test)", 30))


@pytest.fixture
def split() -> DataSplit:
    return made_data()
