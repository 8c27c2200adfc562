"""What must be the same, to the bit or to rounding, if the algorithms are what they say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfor.algorithms import (
    CLIENT_OPTS,
    SERVER_OPTS,
    SHARINGS,
    Algorithm,
    ClientOpt,
    FedAvg,
    FedAvgM,
    FedCurv,
    FedDyn,
    FedFOR,
    FedPD,
    FedProx,
    Local,
    Scaffold,
    ServerOpt,
    SlowMo,
)
from fedfor.data import (
    Caller,
    DataSplit,
    LabelledData,
    Partition,
    TestSet,
    dirichlet_split,
    iid_split,
)
from fedfor.engines import Job, SerialEngine, Training
from fedfor.experiments.simulation import Simulation
from fedfor.models import cnn, cnn_bn, mlp
from fedfor.tensors import Tensors

pytestmark = pytest.mark.fast


def simulation(
    split: DataSplit,
    algorithm: Algorithm,
    make: object = cnn,
    population: Partition | None = None,
    dtype: torch.dtype = torch.float32,
    **training: object,
) -> Simulation:
    torch.manual_seed(0)
    model: nn.Module = make(split.train.x.shape[1:], split.train.classes).to(dtype)  # type: ignore[operator]
    population = population or dirichlet_split(split, 4, seed=1, alpha=1.0, min_samples=2)
    how = Training(**{"epochs": 2, "batch_size": 8, "lr": 0.05, **training})  # type: ignore[arg-type]
    engine = SerialEngine(model, algorithm, how, seed=3)
    return Simulation(population, model, algorithm, how, engine, cohort=3, seed=3)


def weights(split: DataSplit, algorithm: Algorithm, rounds: int = 3, **other: object) -> Tensors:
    s = simulation(split, algorithm, **other)  # type: ignore[arg-type]
    for _ in range(rounds):
        s.round(evaluate=False)
    return s.server.model


def same_bits(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize(
    "client",
    [
        FedFOR(alpha=0.0),
        FedFOR(alpha=0.0, strength="loss"),
        FedFOR(alpha=0.0, strength="equation"),
        FedFOR(alpha=0.0, clip=False),
        FedProx(mu=0.0),
        FedCurv(lam=0.0),
    ],
    ids=repr,
)
def test_no_penalty_is_fedavg_to_the_bit(split: DataSplit, client: ClientOpt) -> None:
    assert same_bits(weights(split, Algorithm(client=client)), weights(split, Algorithm()))


def test_scaffold_with_zero_variates_is_fedavg_to_the_bit(split: DataSplit) -> None:
    scaffold, fedavg = (
        simulation(split, Algorithm(client=Scaffold())),
        simulation(split, Algorithm()),
    )
    for _ in range(3):
        for control in scaffold.server.client_state["control"].values():
            control.zero_()
        for s in (scaffold, fedavg):
            s.store = type(s.store)()  # every client is new: its own variate is zero
            s.round(evaluate=False)
    assert same_bits(scaffold.server.model, fedavg.server.model)


def test_the_penalty_does_something(split: DataSplit) -> None:
    """Otherwise the identities above would hold of anything."""
    fedavg = weights(split, Algorithm())
    for client in (FedFOR(), FedProx(mu=1.0), FedCurv(lam=0.1), Scaffold(), FedDyn(), FedPD()):
        assert not same_bits(weights(split, Algorithm(client=client)), fedavg), client.name


def test_fedfor_has_no_penalty_in_round_1(split: DataSplit) -> None:
    assert same_bits(weights(split, Algorithm(client=FedFOR()), 1), weights(split, Algorithm(), 1))
    assert not same_bits(
        weights(split, Algorithm(client=FedFOR()), 2), weights(split, Algorithm(), 2)
    )


@pytest.mark.parametrize(
    ("client", "mu"), [(FedDyn(alpha=0.25), 0.25), (FedPD(eta=4.0), 0.25)], ids=["feddyn", "fedpd"]
)
def test_new_clients_add_only_the_proximal_term(client: ClientOpt, mu: float) -> None:
    w, w0 = torch.randn(5, 7), torch.randn(5, 7)
    nothing_kept = {name: torch.zeros(5, 7) for name in client.keeps}
    local = Local(lr=0.1, steps=3)
    added = client.added_gradient(w, w0, nothing_kept, local)
    proximal = FedProx(mu=mu).added_gradient(w, w0, {}, local)
    assert added is not None
    assert torch.equal(added, proximal)


def test_unclipped_fedfor_takes_polyak_steps() -> None:
    """W - eta grad L + alpha (W(t-1) - W(t-2)), as in the paper's text."""
    older, old = torch.randn(6).double(), torch.randn(6).double()
    target, eta, alpha = torch.randn(6).double(), 0.1, 0.3
    model = nn.ParameterList([nn.Parameter(old.clone())])
    optimizer = torch.optim.SGD(model.parameters(), lr=eta)
    client = FedFOR(alpha=alpha, strength="equation", clip=False)
    for _ in range(3):
        w = model[0].detach().clone()
        gradient = w - target
        added = client.added_gradient(w, old, {"direction": older - old}, Local(lr=eta))
        model[0].grad = gradient + added
        optimizer.step()
        torch.testing.assert_close(model[0].detach(), w - eta * gradient + alpha * (old - older))


def test_one_full_batch_step_over_equal_clients_is_centralised_gradient_descent(
    split: DataSplit,
) -> None:
    population = iid_split(split, 3, seed=0)
    federated = simulation(
        split, Algorithm(), mlp, population, torch.float64, epochs=1, batch_size=1000
    )
    torch.manual_seed(0)
    model = mlp(split.train.x.shape[1:], split.train.classes).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        federated.round(evaluate=False)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(split.train.x.double()), split.train.y).backward()
        optimizer.step()
    for name, p in model.named_parameters():
        torch.testing.assert_close(federated.server.params[name], p.detach(), rtol=0, atol=1e-12)


def norm_by_hand(sharing: str) -> Simulation:
    """Batch norm on two clients of two numbers each: 0 and 2, 4 and 8."""
    x, y = torch.tensor([[0.0], [2.0], [4.0], [8.0]]), torch.tensor([0, 1, 0, 1])
    data = LabelledData("by hand", x, y, 2)
    population = Partition(DataSplit(data, data), [np.array([0, 1]), np.array([2, 3])])
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
    algorithm = Algorithm(sharing=sharing)  # type: ignore[arg-type]
    how = Training(batch_size=2, lr=0.1)
    engine = SerialEngine(model, algorithm, how, seed=0)
    s = Simulation(population, model, algorithm, how, engine, cohort=2, seed=0)
    s.round(evaluate=False)
    return s


def test_batch_norm_statistics_are_averaged() -> None:
    """Means 1 and 6, variances 2 and 8, each taken in by a tenth: 0.1 and 0.6, 1.1 and 1.7."""
    buffers = norm_by_hand("everything").server.buffers
    assert buffers["0.running_mean"].item() == pytest.approx((0.1 + 0.6) / 2)
    assert buffers["0.running_var"].item() == pytest.approx((1.1 + 1.7) / 2)
    assert buffers["0.num_batches_tracked"].item() == 1


def test_fedbn_by_hand() -> None:
    """Each client keeps its own statistics, and is tested with them."""
    s = norm_by_hand("all-but-batch-norm")
    assert set(s.server.model) == {"1.weight", "1.bias"}
    kept = [s.store.get(k) for k in range(2)]
    layers = [k.extras["own_layers"] for k in kept if k]
    assert [o["0.running_mean"].item() for o in layers] == pytest.approx([0.1, 0.6])
    assert [o["0.running_var"].item() for o in layers] == pytest.approx([1.1, 1.7])
    test = s.population.tests(1)[0]
    expected = []
    for own in layers:
        model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
        model.load_state_dict({**own, **s.server.model})
        model.eval()
        x, y = test.samples.all()
        expected.append(nn.functional.cross_entropy(model(x), y).item())
    assert expected[0] != expected[1]
    # A set that nobody owns is tested with the layers of all clients of the round,
    assert s.evaluate([0, 1])["loss"] == pytest.approx(sum(expected) / 2)
    # one that a client owns with that client's.
    owned = TestSet("mine", test.samples, owner=1)
    [score] = s.engine.evaluate(s._exams(owned, [0, 1]))
    assert score.loss == pytest.approx(expected[1])


def test_slowmo_follows_the_learning_rate_of_each_round(split: DataSplit) -> None:
    """With a decaying rate it is not FedAvgM, and the rate it is told is the round's own."""
    decaying = {"lr_decay": 0.5}
    slow = weights(split, Algorithm(server=SlowMo(beta=0.5)), **decaying)
    fast = weights(split, Algorithm(server=FedAvgM(momentum=0.5)), **decaying)
    assert not same_bits(slow, fast)
    told = []

    class Listening(SlowMo):
        def step(self, w, proposal, state, client_lr):  # type: ignore[no-untyped-def]
            told.append(client_lr)
            return super().step(w, proposal, state, client_lr)

    weights(split, Algorithm(server=Listening()), **decaying)
    assert sorted(set(told), reverse=True) == [0.05, 0.025, 0.0125]


def test_clients_train_at_the_learning_rate_of_the_round(split: DataSplit) -> None:
    """One step from the same model with half the rate goes half as far."""
    s = simulation(
        split, Algorithm(), mlp, dtype=torch.float64, epochs=1, batch_size=1000, lr_decay=0.5
    )
    message = s.server.message()
    job = Job(0, s.population.samples(0, 1))
    moves = []
    for t in (1, 2):
        reply = s.engine.client_update(replace(message, round=t), job).reply  # type: ignore[attr-defined]
        moves.append(reply.model["1.weight"] - message.params["1.weight"])
    torch.testing.assert_close(moves[1], moves[0] / 2)


def test_buffers_are_never_penalised(split: DataSplit) -> None:
    s = simulation(split, Algorithm(client=FedFOR()), cnn_bn)
    s.round(evaluate=False)
    message = s.server.message()
    assert message.extras["direction"].keys() == message.params.keys()
    assert "1.running_mean" in message.buffers
    assert not message.extras["direction"].keys() & message.buffers.keys()


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("server", SERVER_OPTS.values(), ids=SERVER_OPTS)
@pytest.mark.parametrize("client", CLIENT_OPTS.values(), ids=CLIENT_OPTS)
def test_every_combination_runs(
    split: DataSplit, client: type[ClientOpt], server: type[ServerOpt], sharing: str
) -> None:
    s = simulation(
        split,
        Algorithm(client(), server(), sharing),  # type: ignore[arg-type]
        cnn_bn,
        epochs=1,
    )
    records = [s.round() for _ in range(2)]
    assert records[-1]["round"] == 2
    assert (len(s.store) > 0) == (not s.algorithm.stateless)


def test_fedbn_keeps_batch_norm_on_the_clients(split: DataSplit) -> None:
    s = simulation(split, Algorithm(FedAvg(), sharing="all-but-batch-norm"), cnn_bn)  # type: ignore[arg-type]
    shared = s.server.model
    norm = {n for n, _ in cnn_bn((1, 8, 8), 3).state_dict().items() if n.startswith(("1.", "5."))}
    assert norm
    assert not norm & shared.keys()
    s.round(evaluate=False)
    layers = [kept.extras["own_layers"] for k in range(4) if (kept := s.store.get(k))]
    assert len(layers) == 3
    assert all(norm <= own.keys() for own in layers)
    assert not torch.equal(layers[0]["1.running_mean"], layers[1]["1.running_mean"])


def test_fedbn_clients_start_where_they_stopped(split: DataSplit) -> None:
    """A client's own layers come back to it, and a new client gets the initial ones."""
    s = simulation(split, Algorithm(FedAvg(), sharing="all-but-batch-norm"), cnn_bn)  # type: ignore[arg-type]
    s.caller = Caller(s.population, 1, s.seed)
    seen: dict[int, int] = {}
    for t in range(1, 7):
        (client,) = s.caller.call(t).clients
        s.round(evaluate=False)
        kept = s.store.get(client)
        assert kept is not None
        seen[client] = seen.get(client, 0) + 1
        steps = s.training.epochs * -(-len(s.population.samples(client, t)) // 8)
        tracked = int(kept.extras["own_layers"]["1.num_batches_tracked"])
        assert tracked <= steps * seen[client]
        assert tracked > steps * (seen[client] - 1)
    assert max(seen.values()) > 1
