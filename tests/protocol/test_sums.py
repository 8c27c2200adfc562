import pytest
import torch

from fedfor.protocol.sums import BLOCK, FEW, averaged, sums, sums_and_distances
from fedfor.tensors import Tensors

pytestmark = pytest.mark.fast

START: Tensors = {"w": torch.tensor([[1.0, 2.0]]), "b": torch.tensor(0.5)}
ENDS: Tensors = {
    "w": torch.tensor([[[1.0, 2.0]], [[4.0, 6.0]]]),
    "b": torch.tensor([0.5, 0.5]),
    "mean": torch.tensor([[1.0], [3.0]]),
}


def test_sums_by_hand() -> None:
    totals, _ = sums_and_distances(START, ENDS, [1, 1])
    assert totals["w"].tolist() == [[5, 8]]
    assert totals["b"].item() == 1
    assert totals["mean"].tolist() == [4]
    totals, _ = sums_and_distances(START, ENDS, [3, 1])
    assert totals["w"].tolist() == [[7, 12]]
    assert totals["mean"].tolist() == [6]


def test_sums_are_in_float64() -> None:
    large = {"w": torch.tensor([[2.0**24], [1.0], [1.0]])}
    totals = sums(large, [1, 1, 1])
    assert totals["w"].item() == 2**24 + 2
    totals["w"] += torch.tensor([1.0], dtype=torch.float64)
    assert averaged(totals, {"w": torch.zeros(1)}, 1)["w"].item() == 2**24 + 4  # as float32


@pytest.mark.parametrize("clients", [1, FEW, FEW + 1, 3 * FEW - 1])
@pytest.mark.parametrize("shape", [(), (3, 2), (BLOCK + 5,)])
def test_all_clients_are_summed_once(clients: int, shape: tuple[int, ...]) -> None:
    stacked = torch.arange(1.0, clients + 1).view(-1, *(1 for _ in shape)).expand(clients, *shape)
    total = sums({"w": stacked}, [1] * clients)["w"]
    assert total.dtype == torch.float64
    assert torch.equal(total, torch.full(shape, clients * (clients + 1) / 2, dtype=torch.float64))


def test_a_sum_is_not_in_the_memory_of_what_is_summed() -> None:
    """Sums are added to in place, and replies may lie in memory that the engine trains in."""
    alone = torch.ones(1, 4, dtype=torch.float64)
    sums({"w": alone}, [1])["w"].add_(1)
    assert alone.tolist() == [[1] * 4]
