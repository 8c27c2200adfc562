"""A client's weights as a row, and the row as weights."""

import pytest
import torch
from torch import nn

from fedfor.engines.vector.layout import Layout
from fedfor.tensors import Tensors

pytestmark = pytest.mark.fast

LIKE = torch.empty(0)


def net(out: int = 5) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 16, 2), nn.BatchNorm2d(16), nn.Flatten(), nn.Linear(16, out))


def drawn(model: nn.Module) -> Tensors:
    draw = torch.Generator().manual_seed(0)
    return {n: torch.randn(p.shape, generator=draw) for n, p in model.named_parameters()}


def by_hand(layout: Layout, tensors: Tensors) -> torch.Tensor:
    row = torch.zeros(layout.width)
    for name, tensor in tensors.items():
        row[layout.slots[name].start : layout.slots[name].stop] = tensor.flatten()
    return row


@pytest.mark.parametrize("out", [5, 16], ids=["filled up", "full"])
def test_a_row_is_the_weights_and_always_a_copy(out: int) -> None:
    """An engine writes over rows of its own: the server's memory must not be among them."""
    layout, tensors = Layout(net(out)), drawn(net(out))
    assert (layout.used == layout.width) == (out == 16)
    row = layout.row(tensors, LIKE)
    assert torch.equal(row, by_hand(layout, tensors))
    again = layout.split(row)
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())
    copied = layout.row(again, LIKE)
    assert torch.equal(copied, row)
    front = layout.row(again, LIKE, layout.shared_width("all-but-batch-norm"))
    row.fill_(7)
    assert torch.equal(copied, by_hand(layout, tensors))
    assert torch.equal(front, copied[: len(front)])


def test_the_front_is_what_fedbn_shares() -> None:
    layout, tensors = Layout(net()), drawn(net())
    width = layout.shared_width("all-but-batch-norm")
    assert width == sum(t.numel() for name, t in tensors.items() if not name.startswith("1."))
    row = layout.row(tensors, LIKE, width)
    assert torch.equal(row, by_hand(layout, tensors)[:width])
    shared = layout.split(row.expand(2, -1))
    assert {name for name in tensors if name not in shared} == {"1.weight", "1.bias"}
    assert all(torch.equal(t[1], tensors[name]) for name, t in shared.items())


@pytest.mark.parametrize("missing", [{"1.weight", "1.bias"}, {"3.bias"}, set(drawn(net()))])
def test_what_is_missing_is_zero(missing: set[str]) -> None:
    layout = Layout(net())
    some = {name: t for name, t in drawn(net()).items() if name not in missing}
    assert torch.equal(layout.row(some, LIKE), by_hand(layout, some))
