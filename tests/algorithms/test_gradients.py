"""The added gradient is autograd's gradient of the loss as it is printed, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedfor.algorithms import (
    ClientOpt,
    FedAvg,
    FedCurv,
    FedDyn,
    FedFOR,
    FedPD,
    FedProx,
    Local,
    Scaffold,
)
from fedfor.algorithms.fedcurv import fedcurv_gradient
from fedfor.algorithms.feddyn import feddyn_gradient
from fedfor.algorithms.fedfor import fedfor_gradient, fedfor_linear_gradient
from fedfor.algorithms.fedpd import fedpd_gradient
from fedfor.algorithms.fedprox import fedprox_gradient

pytestmark = pytest.mark.fast

LR, STEPS = 0.05, 7
LOCAL = Local(lr=LR, steps=STEPS)


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def autograd(loss: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    w = w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(w), w)
    return gradient


def check(
    client: ClientOpt,
    x: dict[str, Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    local: Local = LOCAL,
) -> None:
    for seed in range(5):
        w, w0 = draw(4, 3, seed=seed), draw(4, 3, seed=100 + seed)
        added = client.added_gradient(w, w0, x, local)
        assert added is not None
        torch.testing.assert_close(
            added, autograd(lambda v, w0=w0: loss(v, w0), w), rtol=0, atol=1e-12
        )


def test_fedavg_adds_nothing() -> None:
    assert FedAvg().added_gradient(draw(3), draw(3, seed=1), {}, LOCAL) is None


def test_fedprox() -> None:
    check(FedProx(mu=0.3), {}, lambda w, w0: 0.3 / 2 * (w - w0).square().sum())


@pytest.mark.parametrize(
    ("strength", "c"),
    [
        ("equation", 0.7 / LR),
        ("loss", 0.7),
        ("step", 0.7 / (LR * STEPS)),
    ],
)
def test_fedfor(strength: Any, c: float) -> None:
    older, old = draw(4, 3, seed=7), draw(4, 3, seed=8)
    check(
        FedFOR(alpha=0.7, strength=strength),
        {"direction": older - old},
        # U(x) = x for x >= 0, else 0
        lambda w, w0: c * torch.clamp((older - old) * (w - w0), min=0).sum(),
    )


def test_fedfor_unclipped() -> None:
    d = draw(4, 3, seed=7)
    check(
        FedFOR(alpha=0.7, strength="equation", clip=False),
        {"direction": d},
        lambda w, w0: 0.7 / LR * (d * (w - w0)).sum(),
    )


@pytest.mark.parametrize("seen", [0.0, 1.0])
def test_fedcurv_sums_over_the_other_clients(seen: float) -> None:
    fishers = [draw(4, 3, seed=s).square() for s in (1, 2, 3)]
    weights = [draw(4, 3, seed=s) for s in (4, 5, 6)]
    x = {
        "fisher_sum": sum(fishers),
        "fisher_w_sum": sum(f * v for f, v in zip(fishers, weights, strict=True)),
        "own_fisher": fishers[0],
        "own_fisher_w": fishers[0] * weights[0],
    }
    others = range(1, 3) if seen else range(3)
    check(
        FedCurv(lam=0.2),
        x,  # type: ignore[arg-type]
        lambda w, w0: (
            0.2 * sum(((w - weights[j]) * fishers[j] * (w - weights[j])).sum() for j in others)
        ),
        Local(lr=LR, steps=STEPS, seen_last_round=seen),
    )


def test_feddyn() -> None:
    h = draw(4, 3, seed=9)
    check(
        FedDyn(alpha=0.4),
        {"own_gradient": h},
        lambda w, w0: -(h * w).sum() + 0.4 / 2 * (w - w0).square().sum(),
    )


def test_fedpd() -> None:
    dual = draw(4, 3, seed=9)
    check(
        FedPD(eta=2.5),
        {"dual": dual},
        lambda w, w0: (dual * (w - w0)).sum() + 1 / (2 * 2.5) * (w - w0).square().sum(),
    )


def test_scaffold() -> None:
    c, c_k = draw(4, 3, seed=9), draw(4, 3, seed=10)
    check(Scaffold(), {"control": c, "own_control": c_k}, lambda w, w0: ((c - c_k) * w).sum())


def test_all_broadcast_over_leading_client_axes() -> None:
    """A stack of clients, each with a strength of its own, equals one after another."""
    seeds, clients = 2, 3
    axes = (seeds, clients)
    w, w0, a, b = (draw(*axes, 4, 5, seed=s) for s in range(4))
    strength = torch.rand(axes, dtype=torch.float64) + 0.5
    functions: list[Callable[[Tensor, Tensor, Tensor, Tensor, Any], Tensor]] = [
        lambda w, w0, a, b, s: fedprox_gradient(w, w0, s),
        lambda w, w0, a, b, s: fedfor_gradient(w, w0, a, s),
        lambda w, w0, a, b, s: fedfor_linear_gradient(w, a, s),
        lambda w, w0, a, b, s: fedcurv_gradient(w, a, b, s),
        lambda w, w0, a, b, s: feddyn_gradient(w, w0, a, s),
        lambda w, w0, a, b, s: fedpd_gradient(w, w0, a, s),
    ]
    for f in functions:
        stacked = f(w, w0, a, b, strength)
        for i in range(seeds):
            for k in range(clients):
                one = f(w[i, k], w0[i, k], a[i, k], b[i, k], float(strength[i, k]))
                assert torch.equal(stacked[i, k], one)


@pytest.mark.parametrize(
    "client", [FedFOR(), FedFOR(strength="loss"), FedCurv(), FedDyn(), FedPD(), Scaffold()]
)
def test_methods_broadcast_with_rates_and_steps_of_each_client(client: ClientOpt) -> None:
    clients = 3
    w, w0 = draw(clients, 4, seed=1), draw(clients, 4, seed=2)
    names = client.down + client.keeps + (("fisher",) if client.needs_fisher else ())
    x = {name: draw(clients, 4, seed=10 + i) for i, name in enumerate(names)}
    rates, steps = torch.tensor([0.1, 0.2, 0.3]).double(), torch.tensor([3.0, 5.0, 9.0]).double()
    seen = torch.tensor([1.0, 0.0, 1.0]).double()
    together = Local(rates, steps, seen)
    added = client.added_gradient(w, w0, x, together)
    outcome = client.finish(w, w0, x, together)
    assert added is not None
    for k in range(clients):
        own = {name: t[k] for name, t in x.items()}
        alone = Local(float(rates[k]), float(steps[k]), float(seen[k]))
        torch.testing.assert_close(added[k], client.added_gradient(w[k], w0[k], own, alone))
        expected = client.finish(w[k], w0[k], own, alone)
        torch.testing.assert_close(outcome.upload[k], expected.upload)
        for part in ("up", "kept"):
            for name, tensor in getattr(expected, part).items():
                torch.testing.assert_close(getattr(outcome, part)[name][k], tensor)


@pytest.mark.parametrize(
    "client", [FedFOR(), FedFOR(clip=False), FedFOR(strength="loss"), FedCurv(), Scaffold()]
)
def test_what_comes_down_need_not_be_stacked(client: ClientOpt) -> None:
    """The server sends the same to all: one tensor serves a stack of clients."""
    clients = 4  # as many as the parameter has rows, so that a wrong axis would go unnoticed
    w, w0 = draw(clients, 4, 3, seed=1), draw(4, 3, seed=2)
    local = Local(torch.tensor([0.1, 0.2, 0.3, 0.4]).double(), torch.arange(1.0, 5).double())
    x = {name: draw(4, 3, seed=10 + i) for i, name in enumerate(client.down)}
    x |= {name: draw(clients, 4, 3, seed=20 + i) for i, name in enumerate(client.keeps)}
    added = client.added_gradient(w, w0, x, local)
    assert added is not None
    for k in range(clients):
        own = {name: t[k] if name in client.keeps else t for name, t in x.items()}
        alone = Local(float(local.lr[k]), float(local.steps[k]))  # type: ignore[index]
        expected = client.added_gradient(w[k], w0, own, alone)
        torch.testing.assert_close(added.expand(w.shape)[k], expected)
