"""A few steps of each ServerOpt against its published update, written out with plain numbers."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import pytest
import torch

from fedfor.algorithms import (
    Average,
    FedAdagrad,
    FedAdam,
    FedAvgM,
    FedYogi,
    ServerOpt,
    SlowMo,
)

pytestmark = pytest.mark.fast

# The clients' mean in each round, and the local learning rate.
MEANS = (0.4, -0.3, 1.1, 1.2)
RATES = (0.1, 0.1, 0.05, 0.025)
START = 0.7


def weights(opt: ServerOpt) -> list[float]:
    w = torch.tensor([START], dtype=torch.float64)
    state = {kept: torch.full_like(w, opt.initial(kept)) for kept in opt.keeps}
    result = []
    for mean, rate in zip(MEANS, RATES, strict=True):
        w, state = opt.step(w, torch.full_like(w, mean), state, rate)
        result.append(w.item())
    return result


def written_out(step: Callable[..., float], state: dict[str, float]) -> list[float]:
    w, result = START, []
    for mean, rate in zip(MEANS, RATES, strict=True):
        w = step(w, mean, rate, state)
        result.append(w)
    return result


def fedavgm(w: float, mean: float, rate: float, s: dict[str, float]) -> float:
    s["v"] = 0.8 * s["v"] + (w - mean)
    return w - 0.5 * s["v"]


def slowmo(w: float, mean: float, rate: float, s: dict[str, float]) -> float:
    s["u"] = 0.6 * s["u"] + (1 / rate) * (w - mean)
    return w - 0.9 * rate * s["u"]


def adaptive(second: Callable[[float, float], float], beta1: float) -> Callable[..., float]:
    def step(w: float, mean: float, rate: float, s: dict[str, float]) -> float:
        delta = mean - w
        s["m"] = beta1 * s["m"] + (1 - beta1) * delta
        s["v"] = second(s["v"], delta)
        return w + 0.2 * s["m"] / (sqrt(s["v"]) + 0.01)

    return step


def sign(x: float) -> float:
    return (x > 0) - (x < 0)


ADAPTIVE: Any = {"lr": 0.2, "tau": 0.01}
START_ADAPTIVE = {"m": 0.0, "v": 0.01**2}


@pytest.mark.parametrize(
    ("opt", "step", "state"),
    [
        (Average(), lambda w, mean, rate, s: mean, {}),
        (Average(lr=0.3), lambda w, mean, rate, s: w + 0.3 * (mean - w), {}),
        (FedAvgM(momentum=0.8, lr=0.5), fedavgm, {"v": 0.0}),
        (SlowMo(beta=0.6, lr=0.9), slowmo, {"u": 0.0}),
        (FedAdagrad(**ADAPTIVE), adaptive(lambda v, d: v + d**2, 0.0), START_ADAPTIVE),
        (
            FedAdam(**ADAPTIVE, beta1=0.8, beta2=0.95),
            adaptive(lambda v, d: 0.95 * v + 0.05 * d**2, 0.8),
            START_ADAPTIVE,
        ),
        (
            FedYogi(**ADAPTIVE, beta1=0.8, beta2=0.95),
            adaptive(lambda v, d: v - 0.05 * d**2 * sign(v - d**2), 0.8),
            START_ADAPTIVE,
        ),
    ],
    ids=lambda p: p.name if isinstance(p, ServerOpt) else "",
)
def test_published_update(
    opt: ServerOpt, step: Callable[..., float], state: dict[str, float]
) -> None:
    assert weights(opt) == pytest.approx(written_out(step, dict(state)), abs=1e-12)


def test_slowmo_is_fedavgm_while_the_rate_is_constant() -> None:
    w = torch.tensor([START], dtype=torch.float64)
    slow, fast = SlowMo(beta=0.5), FedAvgM(momentum=0.5)
    a, b = w, w
    slow_state, fast_state = {"slow_momentum": w * 0}, {"momentum": w * 0}
    for mean in MEANS:
        a, slow_state = slow.step(a, torch.full_like(w, mean), slow_state, 0.1)
        b, fast_state = fast.step(b, torch.full_like(w, mean), fast_state, 0.1)
        torch.testing.assert_close(a, b)


def test_no_momentum_is_the_average() -> None:
    for opt in (FedAvgM(momentum=0.0), SlowMo(beta=0.0)):
        assert weights(opt) == pytest.approx(list(MEANS), abs=1e-12)
