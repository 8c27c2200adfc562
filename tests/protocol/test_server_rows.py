"""All parameters stepped at once give the bits of one after another."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import PRESETS, Algorithm, Named, Scalar, ServerOpt, algorithm
from fedfor.protocol import Server, StackedReply
from fedfor.protocol.rows import Row, row_order
from fedfor.protocol.sums import BLOCK
from fedfor.tensors import Tensors, separate

pytestmark = pytest.mark.fast

CLIENTS = 3


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 5))


def stack(like: Tensors, order: list[str], draw: torch.Generator) -> Tensors:
    """Moved tensors of some clients, in one matrix with a column to spare."""
    row = Row([like[name].shape for name in order])
    matrix = torch.zeros(CLIENTS, row.width + 1)
    named = dict(zip(order, row.split(matrix), strict=True))
    for name, tensor in named.items():
        tensor.copy_(like[name] + torch.randn(tensor.shape, generator=draw))
    return named


def replies(server: Server, net: nn.Module, draw: torch.Generator) -> StackedReply:
    order = [name for name in row_order(net) if name in server.params]
    trained = stack(server.params, order, draw)
    trained |= {
        name: (b + torch.rand(CLIENTS, *b.shape, generator=draw) * 5).to(b.dtype)
        for name, b in server.buffers.items()
    }
    extras = {e: stack(server.params, order, draw) for e in server.algorithm.client.up}
    return StackedReply(trained, extras, (4, 7, 2), (1,) * CLIENTS)


def assert_same_bits(ours: Server, theirs: Server) -> None:
    for extra, tensors in theirs.state().items():
        mine = ours.state()[extra]
        assert list(mine) == list(tensors)
        for name, tensor in tensors.items():
            assert torch.equal(mine[name], tensor), name
            assert mine[name].dtype == tensor.dtype


@pytest.mark.parametrize("name", [*PRESETS, "fedavg,weighted", "fedfor+slowmo"])
def test_bits_are_those_of_one_parameter_after_another(name: str) -> None:
    name, _, weighted = name.partition(",")
    chosen = algorithm(name, weighting="examples" if weighted else "uniform")
    net = model()
    joined, apart = (Server(chosen, net, 9, in_rows=in_rows) for in_rows in (True, False))
    draw = torch.Generator().manual_seed(1)
    for _ in range(3):
        reply = replies(apart, net, draw)
        disagreements = [s.aggregate([reply, reply.one(1)], 0.1) for s in (joined, apart)]
        assert disagreements[0] == pytest.approx(disagreements[1], rel=1e-6)
        assert_same_bits(joined, apart)
        assert list(joined.message().params) == list(apart.message().params)


@dataclass(frozen=True)
class ByLength(ServerOpt):
    name: ClassVar[str] = "by-length"

    def step(
        self, w: Tensor, proposal: Tensor, state: Named, client_lr: Scalar
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return w + (proposal - w) / (proposal - w).norm(), {}


def test_what_is_not_elementwise_is_stepped_by_parameter() -> None:
    net, chosen = model(), Algorithm(server=ByLength())
    joined, apart = (Server(chosen, net, 9, in_rows=in_rows) for in_rows in (True, False))
    reply = replies(apart, net, torch.Generator().manual_seed(1))
    for server in (joined, apart):
        server.aggregate([reply], 0.1)
    assert_same_bits(joined, apart)


def test_parameters_of_two_types() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2).double(), nn.Linear(2, 2))
    server = Server("fedfor", net, 9, in_rows=True)
    before = dict(server.params)
    moved = {name: w + 1 for name, w in before.items()}
    reply = StackedReply({n: w[None] for n, w in moved.items()}, {}, (1,), (1,))
    server.aggregate([reply], 0.1)
    for name, tensor in server.params.items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, moved[name])
    assert torch.equal(server.client_state["direction"]["1.bias"], -torch.ones(2).double())


def test_a_restarted_server_goes_on_with_the_same_bits() -> None:
    net, draw = model(), torch.Generator().manual_seed(1)
    first, second = (Server("fedfor+fedadam", net, 9, in_rows=True) for _ in range(2))
    first.aggregate([replies(first, net, draw)], 0.1)
    second.load_state(first.round, {e: separate(ts) for e, ts in first.state().items()})
    reply = replies(first, net, draw)
    for server in (first, second):
        server.aggregate([reply], 0.1)
    assert_same_bits(second, first)


def test_what_was_sent_stays_as_it_was() -> None:
    net, draw = model(), torch.Generator().manual_seed(1)
    server = Server("fedfor", net, 9, in_rows=True)
    for _ in range(2):
        sent, before = server.message(), server.snapshot()
        copied = {name: w.clone() for name, w in sent.params.items()}
        server.aggregate([replies(server, net, draw)], 0.1)
        for name, w in copied.items():
            assert torch.equal(sent.params[name], w)
            assert torch.equal(before["params"][name], w)
            assert not torch.equal(server.params[name], w)


def test_a_server_of_ones_own_loop_holds_each_tensor_in_its_own_memory() -> None:
    """What carries tensors may take along all the memory that they lie in: pickle does."""
    net, draw = model(), torch.Generator().manual_seed(1)
    server = Server("fedfor", net, 9)
    server.aggregate([replies(server, net, draw)], 0.1)
    message = server.message()
    for tensors in (message.params, message.buffers, *message.extras.values()):
        assert all(t.untyped_storage().nbytes() == t.nbytes for t in tensors.values())


def test_long_rows_are_counted_to_their_end() -> None:
    net = nn.Linear(BLOCK + 5, 1)
    server = Server("fedavg", net, 9, in_rows=True)
    order = row_order(net)
    ends = stack(server.params, order, torch.Generator().manual_seed(1))
    moves = torch.cat([(ends[n] - server.params[n]).double().flatten(1) for n in order], dim=1)
    mean = moves.mean(0)
    expected = {n: (ends[n].double().mean(0)).float() for n in order}
    found = server.aggregate([StackedReply(ends, {}, (1,) * CLIENTS, (1,) * CLIENTS)], 0.1)
    assert all(torch.equal(server.params[n], w) for n, w in expected.items())
    assert found == pytest.approx(float(moves.norm(dim=1).mean() / mean.norm()), rel=1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["0.weight", "1.bias", "1.running_var", "control_change"])
def test_what_is_not_finite_shows(where: str, value: float) -> None:
    net = model()
    server = Server("scaffold", net, 9, in_rows=True)
    good = replies(server, net, torch.Generator().manual_seed(1))
    assert server.begin().add(good, checked=True)
    assert server.seems_finite()
    tensors = good.extras.get(where, good.model)
    tensors["3.bias" if where in good.extras else where][1, -1] = value
    bad = server.begin()
    assert not bad.add(good, checked=True)
    server.finish(bad, 0.1)
    assert bool(server.seems_finite()) == (where in good.extras)
