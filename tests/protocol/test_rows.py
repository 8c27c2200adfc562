"""Tensors end to end: their own memory where they lie so, else the same numbers in a copy."""

import pytest
import torch
from torch import Tensor, nn

from fedfor.protocol.rows import ALIGNED, Row, Rows, row_order

pytestmark = pytest.mark.fast

SHAPES = [(2, 3), (4,), (), (1, 2, 1)]
ROW = Row(SHAPES)


def numbers(*shape: int) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape)


def same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_a_vector_split_and_joined_is_itself() -> None:
    vector = numbers(13)
    parts = ROW.split(vector)
    assert [tuple(p.shape) for p in parts] == SHAPES
    assert parts[2].item() == 10
    joined = ROW.join(parts)
    assert torch.equal(joined, vector)
    assert same_memory(joined, vector)


def test_a_matrix_with_more_columns_is_read_where_it_lies() -> None:
    matrix = numbers(3, 20)[:, 2:18]
    parts = ROW.split(matrix)
    assert [tuple(p.shape) for p in parts] == [(3, *shape) for shape in SHAPES]
    joined = ROW.join(parts)
    assert torch.equal(joined, matrix[:, :13])
    assert same_memory(joined, matrix)


def test_a_row_for_all_clients_may_be_one_in_memory() -> None:
    vector = numbers(13)
    joined = ROW.join(ROW.split(vector.expand(3, -1)))
    assert torch.equal(joined, vector.expand(3, -1))
    assert same_memory(joined, vector)


@pytest.mark.parametrize("clients", [(), (3,)], ids=["one", "stack"])
def test_what_lies_otherwise_is_copied(clients: tuple[int, ...]) -> None:
    """By each way in which tensors can fail to lie end to end."""
    whole = numbers(*clients, 13)
    parts = ROW.split(whole)
    gap = ROW.split(torch.cat([whole[..., :6], whole[..., :1], whole[..., 6:]], -1)[..., 1:])
    cases = {
        "apart": [p.clone() for p in parts],
        "one apart": [*parts[:1], parts[1].clone(), *parts[2:]],
        "turned": [parts[0].transpose(-1, -2).contiguous().transpose(-1, -2), *parts[1:]],
        "a gap": [parts[0], *gap[1:]],
        "turned in its place": [whole[..., :6].view(*clients, 3, 2).mT, *parts[1:]],
        "of another type": [parts[0], parts[1].view(torch.int32), *parts[2:]],
        "cut short": [parts[0], parts[1][..., :3], *parts[2:]],
    }
    for case, tensors in cases.items():
        joined = ROW.join(tensors)
        expected = torch.cat([t.reshape(*clients, -1) for t in tensors], -1)
        assert torch.equal(joined, expected), case
        assert not any(same_memory(joined, t) for t in tensors), case


def test_neighbours_of_another_memory_are_not_taken_for_ones_own() -> None:
    """Two that follow each other by chance, as those of one allocation do on a GPU."""
    memory = numbers(13)
    first, second = (
        torch.frombuffer(memory.numpy()[a:b], dtype=torch.float32) for a, b in ((0, 6), (6, 13))
    )
    assert second.data_ptr() == first.data_ptr() + 6 * 4
    joined = Row([(6,), (7,)]).join([first, second])
    assert torch.equal(joined, memory)
    assert not same_memory(joined, memory)


def test_numbers_alone() -> None:
    row = Row([(), ()])
    assert row.join([torch.tensor(3), torch.tensor(4)]).tolist() == [3, 4]
    assert row.join([torch.tensor([3, 5]), torch.tensor([4, 6])]).tolist() == [[3, 4], [5, 6]]
    assert [t.tolist() for t in row.split(torch.tensor([[3, 4], [5, 6]]))] == [[3, 5], [4, 6]]


def test_types_do_not_mix() -> None:
    like = {"a": torch.zeros(2, 2), "n": torch.tensor(1), "b": torch.zeros(3), "m": torch.tensor(2)}
    rows = Rows(like, joined=True)
    joined = rows.join(like)
    assert {name: t.tolist() for name, t in joined.items()} == {"a": [0.0] * 7, "n": [1, 2]}
    again = rows.split(joined)
    assert all(
        torch.equal(again[name], t) and again[name].shape == t.shape for name, t in like.items()
    )


def test_not_joined_each_is_itself() -> None:
    like = {"a": torch.zeros(2, 2), "b": torch.zeros(3)}
    rows = Rows(like, joined=False)
    assert all(rows.split(rows.join(like))[name] is t for name, t in like.items())
    assert list(rows.join(like)) == ["a", "b"]


def test_batch_norm_comes_last_and_whole_lines_first() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Linear(3, 16))
    assert ALIGNED == 16
    assert row_order(model) == ["2.weight", "2.bias", "0.weight", "0.bias", "1.weight", "1.bias"]
