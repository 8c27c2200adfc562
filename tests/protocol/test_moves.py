"""How clients agree, against numbers worked out by hand."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import PRESETS, FedFOR, algorithm
from fedfor.algorithms.fedfor import fedfor_gradient
from fedfor.protocol import Agreement, Reply, Server, StackedReply
from fedfor.protocol.moves import Moves
from fedfor.protocol.server import BEFORE
from fedfor.protocol.sums import AT_A_TIME, BLOCK
from fedfor.tensors import Extras, Tensors

pytestmark = pytest.mark.fast


def weights_of_two(*values: float) -> nn.Module:
    """A model of two parameters with one weight each."""
    named = zip("ab", values, strict=True)
    return nn.ParameterDict({name: nn.Parameter(torch.tensor([value])) for name, value in named})


def server_of(name: str, in_rows: bool = False, **settings: str) -> Server:
    return Server(algorithm(name, **settings), weights_of_two(0.0, 0.0), 9, in_rows=in_rows)


def round_of(
    server: Server, moves: Sequence[tuple[float, float]], *examples: int
) -> dict[str, float | None]:
    """The figures of a round in which clients make these moves."""
    aggregation = server.begin()
    for k, move in enumerate(moves):
        model = {n: w + by for (n, w), by in zip(server.params.items(), move, strict=True)}
        extras: Extras = {e: dict(server.params) for e in server.algorithm.client.up}
        aggregation.add(Reply(model, extras, examples[k] if examples else 1, 1))
    return told(server.finish(aggregation, 0.1))


def told(agreement: Agreement) -> dict[str, float | None]:
    return Agreement.record([float(number) for number in agreement.tensors])


@pytest.mark.parametrize("in_rows", [False, True])
@pytest.mark.parametrize("name", ["fedavg", "fedfor", "fedprox"])
def test_two_rounds_by_hand(name: str, in_rows: bool) -> None:
    server = server_of(name, in_rows)
    # Moves of length 5; the mean is (3.5, 0.5), at 45 degrees to both of them.
    first = round_of(server, [(3, 4), (4, -3)])
    assert first["disagreement"] == pytest.approx(math.sqrt(2))
    assert first["cosine"] == pytest.approx(math.sqrt(0.5))
    assert first["opposing"] is None
    # d = (-3.5, -0.5): the first client goes against it with its first weight, the second with
    # both. The mean move is (-1, 0).
    second = round_of(server, [(-1, 1), (-1, -1)])
    assert second["opposing"] == 0.75
    assert second["cosine"] == pytest.approx(math.sqrt(0.5))
    # d = (1, 0): a weight that did not move lately is against nothing.
    third = round_of(server, [(2, 5), (-2, 5)])
    assert third["opposing"] == 0.25
    assert third["cosine"] == pytest.approx(5 / math.sqrt(29))


def test_clients_count_as_they_do_in_the_average() -> None:
    server = server_of("fedavg", weighting="examples")
    round_of(server, [(1, 1)], 7)
    found = round_of(server, [(-4, 0), (0, -4)], 3, 1)
    # d = (-1, -1); each opposes with one of two weights. The mean move is (-3, -1).
    assert found["opposing"] == 0.5
    assert found["cosine"] == pytest.approx((3 * 3 + 1 * 1) / math.sqrt(10) / 4)
    found = round_of(server, [(1, 1), (1, -1)], 3, 1)  # d = (3, 1)
    assert found["opposing"] == pytest.approx((3 * 1 + 1 * 0.5) / 4)


def test_a_client_that_did_not_move_counts_as_zero() -> None:
    server = server_of("fedavg")
    assert round_of(server, [(0, 2), (0, 0)])["cosine"] == pytest.approx(0.5)
    found = round_of(server, [(0, -2), (0, 0)])  # d = (0, -1)
    assert found == {"disagreement": pytest.approx(1), "cosine": 0.5, "opposing": 0.25}


@pytest.mark.parametrize("moves", [[(0, 0), (0, 0)], [(1, 2), (-1, -2)]])
def test_without_a_mean_move_there_is_no_cosine(moves: list[tuple[float, float]]) -> None:
    found = round_of(server_of("fedavg"), moves)
    assert found == {"disagreement": 1, "cosine": None, "opposing": None}


def test_opposing_is_what_the_penalty_acts_on() -> None:
    """The weights to which FedFOR adds a gradient, whatever the algorithm of the run."""
    draw = torch.Generator().manual_seed(3)
    net = nn.Linear(7, 5)
    servers = [Server(name, net, 9) for name in ("fedfor", "fedavg", "fedavgm", "scaffold")]
    for t in range(3):
        ends = [
            {n: w + torch.randn(w.shape, generator=draw).round() for n, w in net.named_parameters()}
            for _ in range(4)
        ]
        for server in servers:
            before = server._last_move()
            aggregation, acted = server.begin(), 0
            for end in ends:
                extras: Extras = {e: dict(server.params) for e in server.algorithm.client.up}
                aggregation.add(Reply(end, extras, 1, 1))
                for name, d in (before or {}).items():
                    penalty = fedfor_gradient(end[name], server.params[name], d, 1)
                    acted += int(penalty.count_nonzero())
            found = told(server.finish(aggregation, 0.1))["opposing"]
            assert found == (None if t == 0 else pytest.approx(acted / (4 * 40)))


def test_the_last_move_is_fedfors_direction() -> None:
    fedfor, fedavg = server_of("fedfor"), server_of("fedavg")
    for server in (fedfor, fedavg):
        round_of(server, [(3, 4), (0.1, 0.7)])
    mine, theirs = fedavg._last_move(), fedfor.client_state["direction"]
    assert mine is not None
    assert all(torch.equal(mine[name], d) for name, d in theirs.items())


def spread(clients: int, width: int, scale: float) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    draw = torch.Generator().manual_seed(0)
    start, common = torch.randn(2, width, generator=draw)
    moves = scale * (0.2 * common + torch.randn(clients, width, generator=draw))
    return start, start + moves, -common, [1 + k % 5 for k in range(clients)]


def by_hand(start: Tensor, ends: Tensor, last: Tensor, weights: Sequence[float]) -> list[float]:
    """In float64, with all that there is held at once."""
    moves, w = (ends - start).double(), torch.tensor(weights, dtype=torch.float64)
    mean = (ends.double() * w[:, None]).sum(0).div(w.sum()).float().double() - start.double()
    lengths = moves.norm(dim=1)
    cosines = moves @ mean / lengths / mean.norm()
    opposing = (last.double() * moves > 0).double().mean(dim=1)
    return [float((f * w).sum() / w.sum()) for f in (lengths / mean.norm(), cosines, opposing)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clients", [1, 11, 2 * AT_A_TIME + 5])
@pytest.mark.parametrize("width", [50, BLOCK // 8, 2 * BLOCK + 3])
def test_float32_is_near_to_float64(clients: int, width: int, weighted: bool) -> None:
    """However they come: in one stack, one by one, or in stacks of two sizes."""
    if clients > AT_A_TIME:
        width = min(width, BLOCK // 8)
    start, ends, last, given = spread(clients, width, 1e-2)
    weights = given if weighted else [1] * clients
    expected = by_hand(start, ends, last, weights)
    middle = clients // 3
    for cuts in ([clients], [1] * clients, [middle, clients - middle]):
        moves, first = Moves({"w": start}, {"w": last}), 0
        for count in filter(None, cuts):
            some = slice(first, first + count)
            found = moves.add({"w": ends[some]}, weights[some] if weighted else None, None)
            exact = (ends[some] - start).double().norm(dim=1)
            torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=0)
            first += count
        scale = torch.tensor(weights, dtype=torch.float64)
        mean = (ends.double() * scale[:, None]).sum(0).div(scale.sum()).float()
        agreement = moves.agreement({"w": mean}, sum(weights))
        figures = [float(number) for number in agreement.tensors]
        assert figures == pytest.approx(expected, rel=2e-6)
        assert figures[2] == pytest.approx(expected[2], rel=1e-12)  # it is counted


def test_lengths_that_are_known_are_taken() -> None:
    start, ends, last, _ = spread(AT_A_TIME + 3, 200, 1e-2)
    known = (ends - start).norm(dim=1).double()
    figures = []
    for lengths in (None, known, 2 * known):
        moves = Moves({"w": start}, {"w": last})
        assert lengths is None or torch.equal(moves.add({"w": ends}, None, lengths), lengths)
        if lengths is None:
            moves.add({"w": ends}, None, None)
        agreement = moves.agreement({"w": ends.mean(0)}, len(ends))
        figures.append([float(number) for number in agreement.tensors])
    assert figures[1] == pytest.approx(figures[0])
    assert figures[2] == pytest.approx([2 * figures[0][0], figures[0][1] / 2, figures[0][2]])


def test_one_that_is_not_finite_shows_in_its_length() -> None:
    ends = {"w": torch.tensor([[1.0, 2.0], [math.nan, 2.0], [math.inf, 2.0]])}
    lengths = Moves({"w": torch.zeros(2)}, None).add(ends, None, None)
    assert torch.isfinite(lengths).tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["fedavg", "fedfor"])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_nobody_waits_for_a_device(name: str, weighting: str) -> None:
    """On a device without numbers, where asking for one is an error."""
    net = nn.Linear(30, 20, device="meta")
    server = Server(algorithm(name, weighting=weighting), net, 9, in_rows=True)
    for _ in range(2):
        ends = {n: w.expand(AT_A_TIME + 3, *w.shape) for n, w in server.params.items()}
        counts = (2,) * (AT_A_TIME + 3)
        aggregation = server.begin()
        aggregation.add(StackedReply(ends, {}, counts, counts), checked=True)
        for number in server.finish(aggregation, 0.1).tensors:
            assert (number.device.type, number.shape) == ("meta", ())


def test_parameters_of_any_shape_and_type() -> None:
    start: Tensors = {
        "number": torch.tensor(0.5),
        "matrix": torch.zeros(2, 2, dtype=torch.bfloat16),
        "fine": torch.zeros(1, dtype=torch.float64),
    }
    ends: Tensors = {
        "number": torch.tensor([1.5, 0.5]),
        "matrix": torch.tensor([[[0.0, 2.0], [0.0, 2.0]]] * 2, dtype=torch.bfloat16),
        "fine": torch.zeros(2, 1, dtype=torch.float64),
    }
    last = {name: torch.ones_like(w) for name, w in start.items()}
    moves = Moves(start, last)
    assert moves.add(ends, None, None).tolist() == pytest.approx([3, math.sqrt(8)])
    mean = {name: end.double().mean(0).to(end.dtype) for name, end in ends.items()}
    found = told(moves.agreement(mean, 2))
    length = math.sqrt(8.25)
    assert found["cosine"] == pytest.approx((8.5 / 3 + 8 / math.sqrt(8)) / length / 2)
    assert found["opposing"] == pytest.approx((3 / 6 + 2 / 6) / 2)


def test_replies_with_gradients_are_counted() -> None:
    net = nn.Linear(3, 2)
    server = Server("fedavg", net, 9)
    net.weight.data += 1
    aggregation = server.begin()
    aggregation.add(Reply(dict(net.named_parameters()), {}, 1, 1))
    assert told(aggregation.agreement(dict(net.state_dict())))["cosine"] == pytest.approx(1)


@pytest.mark.parametrize("name", PRESETS)
def test_a_restarted_server_knows_the_last_move(name: str) -> None:
    first, second = (server_of(name) for _ in range(2))
    round_of(first, [(3, 4), (0.1, 0.7)])
    saved = {e: {n: t.clone() for n, t in ts.items()} for e, ts in first.state().items()}
    second.load_state(first.round, saved)
    assert (BEFORE in saved) == (not isinstance(first.algorithm.client, FedFOR))
    moves = [(-1.0, 0.5), (2.0, -3.0)]
    figures = [round_of(server, moves) for server in (first, second)]
    assert figures[0] == figures[1]
    assert figures[0]["opposing"] is not None


def test_an_older_state_leaves_one_round_without() -> None:
    first, second = (server_of("fedavg") for _ in range(2))
    round_of(first, [(3, 4)])
    older = {extra: ts for extra, ts in first.state().items() if extra != BEFORE}
    second.load_state(1, older)
    assert round_of(second, [(-1, 1)])["opposing"] is None
    assert round_of(second, [(1, 1)])["opposing"] == 0.5  # d = (1, -1)


def test_a_state_of_before_a_round_takes_the_last_move_along() -> None:
    """As where a round diverged, or a reply was left out."""
    server = server_of("fedavg")
    snapshots = [server.snapshot()]
    round_of(server, [(3, 4)])
    snapshots.append(server.snapshot())
    expected = round_of(server, [(-1, 1)])["opposing"]
    server.load_state(1, snapshots[1])
    assert round_of(server, [(-1, 1)])["opposing"] == expected
    server.load_state(0, snapshots[0])
    assert round_of(server, [(3, 4)])["opposing"] is None


@pytest.mark.parametrize("name", ["fedavg", "fedfor"])
def test_a_model_with_noise_on_it_is_where_the_last_move_ended(name: str) -> None:
    server = server_of(name)
    before = dict(server.params)
    round_of(server, [(3, 4)])
    server.move_to({"a": torch.tensor([-1.0]), "b": torch.tensor([4.0])}, before)
    # d = (1, -4), not (-3, -4)
    assert round_of(server, [(1, 0), (1, 1)])["opposing"] == 0.5


def test_a_stack_and_one_by_one_are_the_same() -> None:
    net = nn.Linear(40, 9)
    servers = [Server("fedavg", net, 9, in_rows=in_rows) for in_rows in (True, False)]
    draw = torch.Generator().manual_seed(5)
    for _ in range(2):
        ends = {
            n: w + torch.randn(12, *w.shape, generator=draw) for n, w in servers[0].params.items()
        }
        stack = StackedReply(ends, {}, (1,) * 12, (1,) * 12)
        together, apart = (server.begin() for server in servers)
        together.add(stack)
        for k in range(12):
            apart.add(stack.one(k))
        one, other = told(servers[0].finish(together, 0.1)), told(servers[1].finish(apart, 0.1))
        assert one["opposing"] == other["opposing"]
        assert one["cosine"] == pytest.approx(other["cosine"], rel=1e-6)
        assert one["disagreement"] == pytest.approx(other["disagreement"], rel=1e-6)
