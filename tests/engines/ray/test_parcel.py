"""What is sent comes out as it went in, its large buffers apart from the rest."""

import copy
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.engines.ray.parcel import LARGE, Parcel, pack, unpack
from fedfor.protocol import Partial
from fedfor.protocol.tree import Node

pytestmark = pytest.mark.fast

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
)


def carried(parcel: Parcel) -> Parcel:
    """By way of a store: in other memory, where nothing can be written."""
    buffers = [np.frombuffer(buffer.tobytes(), dtype=np.uint8) for buffer in parcel[1]]
    return bytes(parcel[0]), buffers


def there(thing: object) -> Any:
    return unpack(carried(pack(thing)))


def same(ours: Tensor, theirs: Tensor) -> bool:
    """Alike to the bit, NaN too."""
    alike = (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    raw = [t.contiguous().reshape(-1).view(torch.uint8) for t in (ours, theirs)]
    return alike and torch.equal(*raw)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 3), (200, 120)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_all_kinds(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    tensor = (torch.randn(shape, generator=draw) * 3).to(dtype)
    found = there({"x": tensor})["x"]
    assert same(found, tensor)
    assert type(found) is Tensor
    assert not found.requires_grad


def test_not_a_number_keeps_its_bits() -> None:
    odd = torch.tensor([float("nan"), -0.0, float("inf"), 5e-324], dtype=torch.float64)
    assert same(there(odd), odd)


@pytest.mark.parametrize("large", [4, 400])
def test_views_are_carried_without_what_is_around_them(large: int) -> None:
    base = torch.arange(float(large * large)).reshape(large, large)
    views = [base.T, base[:, 1], base[::2, ::3], base[1:2].expand(7, large), base.flip(0)]
    for view, found in zip(views, there(views), strict=True):
        assert same(found, view)
    data, buffers = pack(base[0])
    assert len(data) + sum(b.nbytes for b in buffers) < 4 * large + 1000


@pytest.mark.parametrize("size", [3, 10_000])
def test_what_needs_a_gradient_still_does(size: int) -> None:
    leaf = torch.ones(size, requires_grad=True)
    weight = nn.Parameter(torch.arange(float(size)))
    frozen = nn.Parameter(torch.ones(size), requires_grad=False)
    found = there([leaf, weight, frozen])
    assert [t.requires_grad for t in found] == [True, True, False]
    assert [type(t) for t in found] == [Tensor, nn.Parameter, nn.Parameter]
    assert all(
        same(f.detach(), t.detach()) for f, t in zip(found, [leaf, weight, frozen], strict=True)
    )


def test_tensors_that_are_conjugated_or_sparse() -> None:
    odd = torch.tensor([1 + 2j, 3j]).conj()
    assert torch.equal(there(odd), odd)
    negative = torch._neg_view(torch.arange(3.0))
    assert torch.equal(there(negative), negative)
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(there(sparse).to_dense(), torch.eye(3))


def test_one_tensor_in_two_places_stays_one() -> None:
    one = torch.ones(100_000)
    found = there({"a": one, "b": one})
    assert found["a"] is found["b"]
    assert len(pack([one, one])[1]) == 1


def test_weights_that_are_tied_stay_tied() -> None:
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    found = there(tied)
    assert found[1].weight is found[0].weight
    assert found[1].bias is not found[0].bias


@dataclass(frozen=True)
class Inner:
    sums: dict[str, dict[str, Tensor]]
    nothing: None = None


@dataclass
class Outer:
    inner: Inner
    numbers: np.ndarray
    more: "list[Outer]" = field(default_factory=list)


@pytest.mark.parametrize("size", [2, 50_000])
def test_things_within_things(size: int) -> None:
    inner = Inner({"model": {"w": torch.arange(float(size))}, ".grad": {}})
    outer = Outer(inner, np.arange(size), [Outer(inner, np.zeros(0))])
    found = there(outer)
    assert type(found.inner) is Inner
    assert same(found.inner.sums["model"]["w"], inner.sums["model"]["w"])
    assert found.inner.sums[".grad"] == {}
    assert found.inner.nothing is None
    assert found.numbers.tolist() == outer.numbers.tolist()
    assert found.more[0].inner is found.inner
    assert found.more[0].more == []


def test_models_and_functions_of_one_s_own() -> None:
    """Also those that no module has under a name."""
    factor = torch.full((60, 60), 3.0)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(60, 60)
            self.norm = nn.BatchNorm1d(60)
            self.last = lambda x: x * factor[0]

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.norm(self.layer(x)))  # type: ignore[no-any-return]

    model, x = Own().eval(), torch.randn(5, 60, generator=torch.Generator().manual_seed(0))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(model)
    found = there(model)
    assert torch.equal(found(x), model(x))
    assert all(p.requires_grad for p in found.parameters())
    own = copy.deepcopy(found)  # as a worker does before it trains
    own(x).sum().backward()
    with torch.no_grad():
        for weight in own.parameters():
            weight.add_(1.0)
    assert torch.equal(found(x), model(x))


def test_buffers_go_apart_from_a_size_on() -> None:
    small, large = (torch.zeros(n, dtype=torch.uint8) for n in (LARGE - 1, LARGE))
    data, buffers = pack({"small": small, "large": large, "text": "x" * 100})
    assert [b.nbytes for b in buffers] == [LARGE]
    assert LARGE < len(data) < LARGE + 2000
    arrays = [np.zeros((LARGE, 2)), torch.zeros(LARGE, dtype=torch.bfloat16), nn.Linear(300, 200)]
    data, buffers = pack(arrays)
    assert [b.nbytes for b in buffers] == [16 * LARGE, 2 * LARGE, 4 * 300 * 200]
    assert all(b.dtype == np.uint8 and b.ndim == 1 for b in buffers)
    assert len(data) < 5000


def test_large_buffers_are_not_copied_on_either_side() -> None:
    tensor = torch.zeros(LARGE)
    parcel = pack([tensor])
    found = unpack(parcel)[0]
    assert found.data_ptr() == parcel[1][0].ctypes.data == tensor.data_ptr()


@pytest.mark.parametrize("size", [3, LARGE])
def test_what_was_carried_does_not_follow_what_is_changed_later(size: int) -> None:
    tensor, array = torch.ones(size), np.ones(size)
    parcel = carried(pack([tensor, array]))
    tensor.zero_()
    array[:] = 0
    first, second = unpack(parcel), unpack(parcel)
    for ours in first:
        assert ours.sum() == size
    if size == 3:  # only what is large is shared between those who have it
        first[0].zero_()
        assert second[0].sum() == size


def test_a_sum_that_is_changed_is_copied_first() -> None:
    """As those do who add up what they were sent."""
    sums = {"model": {"w": torch.ones(LARGE, dtype=torch.float64)}}
    parcel = carried(pack([Node(0, 0, Partial(1, 1.0, 1, 8, sums))]))
    (node,) = unpack(parcel)
    other = node.value.copied()
    other.plus(node.value)
    assert other.sums["model"]["w"].sum() == 2 * LARGE
    assert unpack(parcel)[0].value.sums["model"]["w"].sum() == LARGE


def test_what_is_known_by_name_does_not_go_along() -> None:
    data, twin = {"x": torch.ones(LARGE)}, {"x": torch.ones(LARGE)}
    parcel = pack({"data": data, "again": [data], "twin": twin}, {id(data): "split"})
    assert len(parcel[1]) == 1  # of the twin, which is another
    elsewhere = object()
    found = unpack(parcel, {"split": elsewhere})
    assert found["data"] is found["again"][0] is elsewhere
    assert same(found["twin"]["x"], twin["x"])
    with pytest.raises(KeyError):
        unpack(parcel)
