"""The order in which a tree adds up: told by strings, whose sum shows it."""

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedfor.algorithms import algorithm
from fedfor.protocol import Aggregation, Reply, Server
from fedfor.protocol.tree import Node, Tree, folded

pytestmark = pytest.mark.fast


def pair(left: str, right: str) -> str:
    return f"({left}+{right})"


def leaves(count: int) -> list[Node[str]]:
    return [Node(0, place, str(place)) for place in range(count)]


def whole(nodes: list[Node[str]]) -> str | None:
    tree = Tree(pair)
    for node in nodes:
        tree.put(node)
    return tree.root()


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, None),
        (1, "0"),
        (2, "(0+1)"),
        (3, "((0+1)+2)"),
        (5, "(((0+1)+(2+3))+4)"),
        (7, "(((0+1)+(2+3))+((4+5)+6))"),
    ],
)
def test_by_hand(count: int, expected: str | None) -> None:
    assert whole(leaves(count)) == expected


@given(st.integers(1, 40), st.lists(st.integers(0, 40), max_size=5), st.randoms())
def test_slices_and_order_of_arrival_change_nothing(
    count: int, cuts: list[int], draw: random.Random
) -> None:
    expected = whole(leaves(count))
    borders = sorted({0, count, *(cut for cut in cuts if cut < count)})
    parts = []
    for first, last in itertools.pairwise(borders):
        some = leaves(count)[first:last]
        draw.shuffle(some)
        parts += folded(pair, some)
    draw.shuffle(parts)
    middle = draw.randint(0, len(parts))
    parts = folded(pair, parts[:middle]) + folded(pair, parts[middle:])
    assert whole(parts) == expected
    (one,) = folded(pair, parts, whole=True)
    assert whole([one]) == expected


def test_leaves_in_order_leave_one_node_a_level() -> None:
    tree, most = Tree(pair), 0
    for leaf in leaves(1000):
        tree.put(leaf)
        most = max(most, len(tree.nodes()))
    assert most == 9  # after 511, which is nine ones


def test_a_leaf_that_is_missing_is_told() -> None:
    tree = Tree(pair)
    tree.put(Node(0, 0, "0"))
    tree.put(Node(0, 2, "2"))
    with pytest.raises(ValueError, match="leaf 1 is missing"):
        tree.root()


@pytest.mark.parametrize("name", ["fedfor", "scaffold", "fedcurv"])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_replies_added_up_elsewhere_give_the_same_bits(name: str, weighting: str) -> None:
    """In three slices, one of which comes first though it is the last."""
    net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)).double()
    chosen = algorithm(name, weighting=weighting)
    draw = torch.Generator().manual_seed(1)
    servers = [Server(chosen, net, 9) for _ in range(2)]
    for _ in range(3):
        replies = [
            Reply(
                {n: _near(w, draw) for n, w in servers[0].model.items()},
                {e: {n: _near(w, draw) for n, w in servers[0].params.items()} for e in _up(name)},
                examples=3 + k,
                steps=k,
            )
            for k in range(11)
        ]
        alone, together = (server.begin() for server in servers)
        for reply in replies:
            alone.add(reply, losses=torch.tensor([0.1 * reply.steps]))
        for first, last in ((7, 11), (0, 2), (2, 7)):
            part = Aggregation(chosen, together.message, servers[1]._layout, together.last_move)
            for place in range(first, last):
                reply = replies[place]
                part.add(reply, losses=torch.tensor([0.1 * reply.steps]), place=place)
            together.merge(part.nodes())
        assert torch.equal(alone.mean_loss(), together.mean_loss())
        agreed = [s.finish(a, 0.1) for s, a in zip(servers, (alone, together), strict=True)]
        for one, other in zip(agreed[0].tensors, agreed[1].tensors, strict=True):
            assert torch.equal(one, other) or (one.isnan() and other.isnan())
        one, other = (server.state() for server in servers)
        for extra, tensors in one.items():
            for n, tensor in tensors.items():
                assert torch.equal(tensor, other[extra][n])


def _up(name: str) -> tuple[str, ...]:
    return algorithm(name).client.up


def _near(w: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    if not w.is_floating_point():
        return w + 1
    return w + torch.randn(w.shape, generator=draw, dtype=w.dtype)
