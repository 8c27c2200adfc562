"""The kernel against torch in float64."""

import math

import pytest
import torch

from ..interpreter import DEVICE, interpreter  # isort: skip  (ends here without Triton)
from fedfor.protocol import triton_sums

__all__ = ["interpreter"]


def rows(clients: int) -> torch.Tensor:
    """More columns than are used, as in a stack."""
    return torch.randn(clients, 1500, generator=torch.Generator().manual_seed(0)).to(DEVICE)


@pytest.mark.parametrize("clients", [1, 8, 11])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_and_distances(clients: int, weighted: bool) -> None:
    held = rows(clients + 1)
    start = {"a": held[0, :1200].view(30, 40), "b": held[0, 1203]}
    ends = {"a": held[1:, :1200].view(clients, 30, 40), "b": held[1:, 1203]}
    weights = [1 + 2.0 * k for k in range(clients)] if weighted else [1.0] * clients
    totals, lengths = triton_sums.sums_and_distances(start, ends, weights)
    scale = torch.tensor(weights, dtype=torch.float64, device=DEVICE)
    squares = torch.zeros(clients, dtype=torch.float64, device=DEVICE)
    for name, w in start.items():
        exact = torch.tensordot(scale, ends[name].double(), dims=1)
        torch.testing.assert_close(totals[name], exact, rtol=1e-12, atol=1e-12)
        squares += (ends[name] - w).double().square().reshape(clients, -1).sum(1)
    torch.testing.assert_close(lengths, squares.sqrt(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_shows(value: float) -> None:
    ends = rows(3)
    ends[1, 1400] = value
    start = {"a": torch.zeros(1500, device=DEVICE)}
    _, lengths = triton_sums.sums_and_distances(start, {"a": ends}, [1.0] * 3)
    assert torch.isfinite(lengths).tolist() == [True, False, True]
