import math

import torch

from fedfor.protocol.sums import Sums, sums_and_distances
from fedfor.tensors import Tensors

START: Tensors = {"w": torch.tensor([[1.0, 2.0]]), "b": torch.tensor(0.5)}
ENDS: Tensors = {
    "w": torch.tensor([[[1.0, 2.0]], [[4.0, 6.0]]]),
    "b": torch.tensor([0.5, 0.5]),
    "mean": torch.tensor([[1.0], [3.0]]),
}


def test_sums_and_distances_by_hand() -> None:
    totals, lengths = sums_and_distances(START, ENDS, [1, 1])
    assert totals["w"].tolist() == [[5, 8]]
    assert totals["b"].item() == 1
    assert totals["mean"].tolist() == [4]
    assert lengths.tolist() == [0, 5]
    totals, lengths = sums_and_distances(START, ENDS, [3, 1])
    assert totals["w"].tolist() == [[7, 12]]
    assert totals["mean"].tolist() == [6]
    assert lengths.tolist() == [0, 5]


def test_sums_are_in_float64() -> None:
    large = {"w": torch.tensor([[2.0**24], [1.0], [1.0]])}
    totals, lengths = sums_and_distances({"w": torch.zeros(1)}, large, [1, 1, 1])
    assert totals["w"].item() == 2**24 + 2
    assert lengths[0].item() == 2**24
    running = Sums()
    running.add("model", totals)
    running.add("model", {"w": torch.tensor([1.0], dtype=torch.float64)})
    assert running.over("model", {"w": torch.zeros(1)}, 1)["w"].item() == 2**24 + 4  # as float32


def test_one_that_is_not_finite_shows_in_its_distance() -> None:
    ends = {"w": torch.tensor([[1.0, 2.0], [math.nan, 2.0], [math.inf, 2.0]])}
    _, lengths = sums_and_distances({"w": torch.zeros(2)}, ends, [1, 1, 1])
    assert torch.isfinite(lengths).tolist() == [True, False, False]
