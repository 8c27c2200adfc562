"""A ClientOpt in a training loop that the package knows nothing of."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedfor
from fedfor.algorithms import (
    ClientOpt,
    FedAvg,
    FedCurv,
    FedFOR,
    FedProx,
    Local,
    Named,
    Scaffold,
)
from fedfor.errors import ConfigError
from fedfor.protocol import LocalRound, Message, Server

pytestmark = pytest.mark.fast

STEPS = 6


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(4, 5).double(), torch.randint(2, (4,))) for _ in range(STEPS)]


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def adamw(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1)


Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]


@pytest.mark.parametrize("make_optimizer", [sgd, adamw])
@pytest.mark.parametrize(
    ("client", "penalty"),
    [
        (FedProx(mu=0.5), lambda w, w0, d: 0.25 * (w - w0).square().sum()),
        (
            FedFOR(alpha=2.0, strength="loss"),
            lambda w, w0, d: 2.0 * torch.relu(d * (w - w0)).sum(),
        ),
        (Scaffold(), lambda w, w0, d: (d * w).sum()),
    ],
    ids=["fedprox", "fedfor", "scaffold"],
)
def test_somebody_elses_loop(make_optimizer: Any, client: ClientOpt, penalty: Penalty) -> None:
    """The hook does what the penalty in the loss would do, whatever the optimizer."""
    torch.manual_seed(2)
    start = {n: p.detach().clone() for n, p in model().named_parameters()}
    extra = {n: torch.randn_like(p) for n, p in start.items()}
    message = Message(2, start, {}, {client.down[0]: extra} if client.down else {})

    hooked = model()
    optimizer = make_optimizer(hooked)
    local = fedfor.LocalRound(client, hooked, optimizer, message, steps=STEPS)
    for x, y in batches():
        optimizer.zero_grad()
        nn.functional.cross_entropy(hooked(x), y).backward()
        optimizer.step()
    reply, _ = local.finish(examples=24)

    plain = model()
    optimizer = make_optimizer(plain)
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(plain(x), y)
        for name, p in plain.named_parameters():
            loss = loss + penalty(p, start[name], extra[name])
        loss.backward()
        optimizer.step()
    for name, p in plain.named_parameters():
        torch.testing.assert_close(reply.model[name], p.detach(), rtol=0, atol=1e-12)
    assert (reply.examples, reply.steps) == (24, STEPS)


def test_the_hook_is_gone_after_finish() -> None:
    net = model()
    optimizer = sgd(net)
    local = LocalRound(FedProx(mu=1e6), net, optimizer)
    x, y = batches()[0]
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    local.finish(examples=4)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    before = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    optimizer.step()
    after = [p.grad for p in net.parameters() if p.grad is not None]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_whole_round_by_hand() -> None:
    """The server's side and two clients' without any engine."""
    net = model()
    server = Server("fedfor", net, population=2)
    for _ in range(3):
        message = server.message()
        replies = []
        for client in range(2):
            optimizer = sgd(net)
            local = LocalRound("fedfor", net, optimizer, message, steps=3)
            for x, y in batches()[3 * client : 3 * client + 3]:
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                optimizer.step()
            replies.append(local.finish(examples=12)[0])
        server.aggregate(replies, client_lr=0.1)
    assert server.round == 3


def test_learning_rates_of_parameter_groups_count_each_for_itself() -> None:
    """c = alpha/eta: a group with another rate has another strength."""
    net = model()
    parameters = list(net.parameters())
    groups = [{"params": parameters[:2], "lr": 0.1}, {"params": parameters[2:], "lr": 0.4}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    start = {n: p.detach().clone() for n, p in net.named_parameters()}
    ones = {n: torch.ones_like(p) for n, p in start.items()}
    client = FedFOR(alpha=0.2, strength="equation", clip=False)
    local = LocalRound(client, net, optimizer, Message(2, start, {}, {"direction": ones}))
    local.add_to_gradients()
    expected = {0.1: 2.0, 0.4: 0.5}
    for group in optimizer.param_groups:
        for p in group["params"]:
            torch.testing.assert_close(p.grad, torch.full_like(p, expected[group["lr"]]))


def test_frozen_parameters_stay_and_do_not_travel() -> None:
    net = model()
    net[0].requires_grad_(False)  # type: ignore[index]
    frozen = net[0].weight.clone()  # type: ignore[index]
    server = Server("fedprox", net, population=1)
    assert set(server.model) == {"2.weight", "2.bias"}
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    local = LocalRound("fedprox", net, optimizer, server.message())
    x, y = batches()[0]
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    server.aggregate([local.finish(examples=4)[0]], client_lr=0.1)
    assert torch.equal(net[0].weight, frozen)  # type: ignore[index]


class Odd(ClientOpt):
    name = "odd"

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return torch.zeros(3)


def test_a_scheduler_may_change_the_rate_within_the_round() -> None:
    """SCAFFOLD's variate is the mean gradient: the move over the sum of the rates."""
    net = nn.Linear(3, 1, bias=False).double()
    start = net.weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    message = Message(1, {"weight": start}, {})
    local = LocalRound(Scaffold(), net, optimizer, message)
    for _ in range(3):
        optimizer.zero_grad()
        net.weight.sum().backward()  # a gradient of one everywhere
        optimizer.step()
        scheduler.step()
    _, kept = local.finish(examples=1)
    assert kept is not None
    torch.testing.assert_close(kept.extras["own_control"]["weight"], torch.ones(1, 3).double())


def test_scaled_gradients_are_unscaled_first() -> None:
    results = []
    for scale in (1.0, 1024.0):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        LocalRound(FedProx(mu=5.0), net, optimizer)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        for x, y in batches():
            optimizer.zero_grad()
            scaler.scale(nn.functional.cross_entropy(net(x), y)).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
        results.append([p.detach().clone() for p in net.parameters()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_a_wrong_number_of_steps_is_told() -> None:
    net = model()
    optimizer = sgd(net)
    start = {n: p.detach().clone() for n, p in net.named_parameters()}
    local = LocalRound("fedfor", net, optimizer, Message(1, start, {}), steps=9)
    x, y = batches()[0]
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    with pytest.warns(UserWarning, match="was told of 9 local steps and saw 1"):
        local.finish(examples=4)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("steps", "pass steps="),
        ("optimizer", "parameter '2.weight' is not in the optimizer"),
        ("lbfgs", "optimizers that are given a closure"),
        ("closure", "optimizers that are given a closure"),
        ("negative steps", "1 or more: pass steps="),
        ("no message", "fedfor needs what its server sends beside the model (direction)"),
        ("other server", "scaffold needs what its server sends beside the model (control)"),
        ("fused", "a fused optimizer unscales gradients inside step()"),
        ("wrong shape", "added_gradient gave shape (3,) for a parameter of shape (8, 5)"),
        ("no step", "took no optimizer step"),
        ("fisher", "pass fisher=fedfor.fisher_diagonal"),
        ("shape", "tensor '0.weight' came with shape (3, 3)"),
        ("name", "no such tensor"),
    ],
)
def test_mistakes_are_told(mistake: str, words: str) -> None:
    net = model()
    x, y = batches()[0]

    def loss() -> Tensor:
        value = nn.functional.cross_entropy(net(x), y)
        value.backward()
        return value

    def act() -> None:
        if mistake == "steps":
            LocalRound(FedFOR(), net, sgd(net))
        if mistake == "optimizer":
            LocalRound(FedAvg(), net, torch.optim.SGD(net[0].parameters(), lr=0.1))  # type: ignore[index]
        if mistake == "lbfgs":
            LocalRound(FedProx(), net, torch.optim.LBFGS(net.parameters(), lr=0.1))
        if mistake == "closure":
            optimizer = sgd(net)
            LocalRound(FedProx(), net, optimizer)
            optimizer.step(loss)  # type: ignore[arg-type]
        if mistake == "negative steps":
            LocalRound(FedProx(), net, sgd(net), steps=-3)
        if mistake == "no message":
            LocalRound(FedFOR(), net, sgd(net), steps=3)
        if mistake == "other server":
            start = {n: p.detach().clone() for n, p in net.named_parameters()}
            LocalRound(Scaffold(), net, sgd(net), Message(2, start, {}))
        if mistake == "fused":
            fused = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
            LocalRound(FedProx(), net, fused)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            scaler.scale(nn.functional.cross_entropy(net(x), y)).backward()  # type: ignore[no-untyped-call]
            scaler.step(fused)
        if mistake == "wrong shape":
            optimizer = sgd(net)
            LocalRound(Odd(), net, optimizer)
            loss()
            optimizer.step()
        if mistake == "no step":
            LocalRound(FedAvg(), net, sgd(net)).finish(examples=1)
        if mistake == "fisher":
            optimizer = sgd(net)
            local = LocalRound(
                FedCurv(),
                net,
                optimizer,
                Message(1, {n: p.detach().clone() for n, p in net.named_parameters()}, {}),
            )
            loss()
            optimizer.step()
            local.finish(examples=4)
        if mistake == "shape":
            LocalRound(FedAvg(), net, sgd(net), Message(1, {"0.weight": torch.zeros(3, 3)}, {}))
        if mistake == "name":
            LocalRound(FedAvg(), net, sgd(net), Message(1, {"nope": torch.zeros(3)}, {}))

    with pytest.raises(ConfigError) as error:
        act()
    assert words in str(error.value)
