"""Under Flower's wrappers for differential privacy, and with its mods."""

import itertools
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message
from flwr.clientapp.mod import (
    LocalDpMod,
    adaptiveclipping_mod,
    arrays_size_mod,
    fixedclipping_mod,
    message_size_mod,
)
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from fedfor.errors import ConfigError, FolderError
from fedfor.flower import FederationError, Strategy, plain_messages, start

from .app import client_app, new_model
from .faults import (
    cut_short,
    error,
    no_metrics,
    of_text,
    of_wrong_shape,
    with_nan,
    without_one,
)
from .grid import InProcessGrid

NODES, ROUNDS = 3, 3

SIDES: dict[str, tuple[Any, list[Any]]] = {
    "server": (DifferentialPrivacyServerSideFixedClipping, []),
    "client": (DifferentialPrivacyClientSideFixedClipping, [plain_messages, fixedclipping_mod]),
}


def inner(algorithm: str = "fedfor", model: str = "mlp", **options: Any) -> Strategy:
    given = {"min_available_nodes": NODES, "min_train_nodes": NODES, "fraction_evaluate": 0}
    return Strategy(algorithm, new_model(model), **(given | options))


def weights(message: Message, record: str = "arrays") -> dict[str, torch.Tensor]:
    return message.content.array_records[record].to_torch_state_dict()


def plain_run(form: str = "cross-device", algorithm: str = "fedfor") -> dict[str, torch.Tensor]:
    grid = InProcessGrid(client_app(NODES), NODES)
    result = inner(algorithm, form=form).start(grid, num_rounds=ROUNDS)
    return result.arrays.to_torch_state_dict()


@pytest.mark.parametrize("form", ["cross-device", "cross-silo"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("own_start", [False, True])
def test_without_noise_and_with_room_it_is_the_same_run(
    side: str, form: str, own_start: bool
) -> None:
    wrapper, mods = SIDES[side]
    grid = InProcessGrid(client_app(NODES, mods=mods), NODES)
    strategy = wrapper(inner(form=form), 0.0, 1e6, NODES)
    if own_start:  # Flower's loop
        arrays = inner().arrays()
        result = strategy.start(grid, arrays, num_rounds=ROUNDS)
    else:
        result = start(strategy, grid, num_rounds=ROUNDS)
    for name, tensor in plain_run(form).items():
        torch.testing.assert_close(result.arrays.to_torch_state_dict()[name].float(), tensor)


@pytest.mark.parametrize("form", ["cross-device", "cross-silo"])
@pytest.mark.parametrize("side", SIDES)
def test_updates_are_clipped(side: str, form: str) -> None:
    wrapper, mods = SIDES[side]
    grid = InProcessGrid(client_app(NODES, mods=mods), NODES)
    strategy = inner(form=form)
    start(wrapper(strategy, 0.0, 0.01, NODES), grid, num_rounds=ROUNDS)
    before = new_model().state_dict()
    moved = [strategy.server.params[n] - before[n] for n in before]
    length = float(torch.cat([m.flatten() for m in moved]).norm())
    assert 0 < length <= ROUNDS * 0.01 * 1.0001
    assert plain_length() > 10 * length


def plain_length() -> float:
    before, after = new_model().state_dict(), plain_run()
    return float(torch.cat([(after[n] - before[n]).flatten() for n in before]).norm())


@pytest.mark.parametrize("own_start", [False, True])
def test_the_direction_does_not_tell_the_noise(own_start: bool) -> None:
    """Clients get d = w(t-2) - w(t-1) of the models that they saw, noise and all. The exact mean,
    and with it the noise, must not be found in what goes down."""
    grid = InProcessGrid(client_app(NODES), NODES)
    strategy = DifferentialPrivacyServerSideFixedClipping(inner(), 1.0, 0.5, NODES)
    if own_start:
        strategy.start(grid, inner().arrays(), num_rounds=ROUNDS)
    else:
        start(strategy, grid, num_rounds=ROUNDS)
    of_round = [grid.asked[t * NODES] for t in range(ROUNDS)]
    for before, now in itertools.pairwise(of_round):
        old, new, sent = weights(before), weights(now), weights(now, "extras")
        assert sent.keys() == {f"direction/{name}" for name in new}
        for name in new:
            assert torch.equal(sent[f"direction/{name}"], old[name] - new[name])
    # The noise is there: without it the model would be the mean of the clipped replies.
    again = InProcessGrid(client_app(NODES), NODES)
    other = DifferentialPrivacyServerSideFixedClipping(inner(), 0.0, 0.5, NODES)
    start(other, again, num_rounds=2)
    name = next(iter(weights(of_round[1])))
    assert not torch.equal(weights(of_round[1])[name], weights(again.asked[NODES])[name])


@pytest.mark.parametrize("algorithm", ["fedfor", "fedavg"])
@pytest.mark.parametrize("own_start", [False, True])
def test_agreement_is_with_the_models_that_clients_saw(algorithm: str, own_start: bool) -> None:
    """`opposing` counts moves against the last global move, noise and all."""
    grid = InProcessGrid(client_app(NODES), NODES)
    strategy = inner(algorithm)
    wrapped = DifferentialPrivacyServerSideFixedClipping(strategy, 1.0, 0.5, NODES)
    if own_start:
        wrapped.start(grid, inner().arrays(), num_rounds=ROUNDS)
    else:
        start(wrapped, grid, num_rounds=ROUNDS)
    seen = [weights(grid.asked[t * NODES]) for t in range(ROUNDS)]
    assert strategy.records[0]["opposing"] is None
    for t, (before, now) in enumerate(itertools.pairwise(seen), start=1):
        against, of = 0, 0
        for reply in grid.replies[t * NODES : (t + 1) * NODES]:
            for name, w in weights(reply).items():
                against += int(((before[name] - now[name]) * (w - now[name]) > 0).sum())
                of += w.numel()
        # Clipping shortens a move and may round a tiny part of it away.
        assert strategy.records[t]["opposing"] == pytest.approx(against / of, abs=5e-3)


def test_what_would_go_up_unprotected_is_refused() -> None:
    for name in ("scaffold", "fedcurv"):
        wrapped = DifferentialPrivacyServerSideFixedClipping(inner(name), 1.0, 1.0, NODES)
        grid = InProcessGrid(client_app(NODES), NODES)
        with pytest.raises(ConfigError, match="would neither clip nor put noise on; use a method"):
            start(wrapped, grid, num_rounds=1)
        with pytest.raises(ConfigError, match="would neither clip nor put noise on; use a method"):
            wrapped.start(grid, inner(name).arrays(), num_rounds=1)
        assert grid.asked == []


def test_state_made_before_the_noise_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    for name, told in (("fedavgm", True), ("feddyn", True), ("fedfor", False)):
        caplog.clear()
        wrapped = DifferentialPrivacyServerSideFixedClipping(inner(name), 1.0, 1.0, NODES)
        with caplog.at_level(logging.WARNING, logger="flwr"):
            start(wrapped, InProcessGrid(client_app(NODES), NODES), num_rounds=2)
        assert ("no privacy accounting covers that" in caplog.text) == told


def test_a_mod_that_is_not_told_of_the_extras_says_so() -> None:
    """Loudly, and not by clipping against the wrong thing."""
    for form in ("cross-device", "cross-silo"):
        grid = InProcessGrid(client_app(NODES, mods=[fixedclipping_mod]), NODES)
        strategy = DifferentialPrivacyClientSideFixedClipping(
            inner(form=form, retries=0), 0.0, 1.0, NODES
        )
        with pytest.raises(FederationError, match="round 2: too few good replies"):
            start(strategy, grid, num_rounds=2)
        assert "expects exactly one ArrayRecord" in grid.replies[-1].error.reason


@pytest.mark.parametrize(
    ("wrapper", "mods"),
    [
        (DifferentialPrivacyServerSideAdaptiveClipping, []),
        (DifferentialPrivacyClientSideAdaptiveClipping, [plain_messages, adaptiveclipping_mod]),
    ],
)
def test_adaptive_clipping(wrapper: Any, mods: list[Any]) -> None:
    grid = InProcessGrid(client_app(NODES, mods=mods), NODES)
    strategy = inner()
    start(wrapper(strategy, 0.1, NODES), grid, num_rounds=ROUNDS)
    assert [r["clients"] for r in strategy.records] == [NODES] * ROUNDS


WRAPPERS: dict[str, tuple[Any, tuple[float, ...], list[Any]]] = {
    "server": (DifferentialPrivacyServerSideFixedClipping, (1.0, 0.5), []),
    "client": (
        DifferentialPrivacyClientSideFixedClipping,
        (1.0, 0.5),
        [plain_messages, fixedclipping_mod],
    ),
    "server, adaptive": (DifferentialPrivacyServerSideAdaptiveClipping, (0.1,), []),
    "client, adaptive": (
        DifferentialPrivacyClientSideAdaptiveClipping,
        (0.1,),
        [plain_messages, adaptiveclipping_mod],
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize(
    "fault", [error, of_wrong_shape, without_one, of_text, cut_short, with_nan, no_metrics]
)
def test_a_bad_reply_does_not_stop_a_private_run(name: str, fault: Any) -> None:
    wrapper, settings, mods = WRAPPERS[name]
    grid = InProcessGrid(client_app(NODES, mods=mods), NODES)
    grid.tamper = lambda node, reply: fault(reply) if node == 102 else reply
    strategy = inner()
    wrapped = wrapper(strategy, *settings, NODES)
    start(wrapped, grid, num_rounds=2)
    for record in strategy.records:
        assert record["clients"] == NODES - 1
        assert [r["node"] for r in record["rejected"]] == ["102"]
        assert record["attempts"] == 1
    assert wrapped.num_sampled_clients == NODES


@pytest.mark.parametrize("side", SIDES)
def test_noise_is_for_those_that_count(side: str, caplog: pytest.LogCaptureFixture) -> None:
    """A mean of fewer replies depends more on each of them."""
    wrapper, mods = SIDES[side]
    grid = InProcessGrid(client_app(NODES, mods=mods), NODES)
    grid.tamper = lambda node, reply: with_nan(reply) if node == 102 else reply
    with caplog.at_level(logging.INFO, logger="flwr"):
        start(wrapper(inner(), 1.0, 0.6, NODES), grid, num_rounds=1)
    assert "central DP noise with 0.3000 stdev" in caplog.text  # 0.6/2, not 0.6/3


def test_adaptive_clipping_resumes_with_its_norm(tmp_path: Path) -> None:
    def wrapped() -> Any:
        strategy = inner(folder=tmp_path / "run")
        return DifferentialPrivacyServerSideAdaptiveClipping(strategy, 0.1, NODES)

    first, again = wrapped(), wrapped()
    start(first, InProcessGrid(client_app(NODES), NODES), num_rounds=4)
    assert first.clipping_norm != again.clipping_norm
    start(again, InProcessGrid(client_app(NODES), NODES), num_rounds=4)
    assert again.clipping_norm == first.clipping_norm
    with pytest.raises(FolderError, match="of one with other wrappers"):
        inner(folder=tmp_path / "run").start(InProcessGrid(client_app(NODES), NODES), num_rounds=5)


def test_mods_that_only_look_change_nothing() -> None:
    grid = InProcessGrid(client_app(NODES, mods=[message_size_mod, arrays_size_mod]), NODES)
    got = inner().start(grid, num_rounds=ROUNDS).arrays.to_torch_state_dict()
    assert all(torch.equal(got[n], t) for n, t in plain_run().items())


def test_local_privacy_with_batch_norm() -> None:
    """Noise and clipping make float64 of all arrays, whole numbers too."""
    local = LocalDpMod(1.0, 0.001, 1.0, 0.1)
    grid = InProcessGrid(client_app(NODES, "cnn-bn", mods=[plain_messages, local]), NODES)
    strategy = inner(model="cnn-bn")
    start(strategy, grid, num_rounds=ROUNDS)
    assert [r["clients"] for r in strategy.records] == [NODES] * ROUNDS
    for name, tensor in new_model("cnn-bn").state_dict().items():
        assert strategy.server.model[name].dtype == tensor.dtype


def test_a_wrapped_strategy_resumes_with_its_noise(tmp_path: Path) -> None:
    """What is saved is the model that clients saw, not the one before the noise."""
    grid = InProcessGrid(client_app(NODES), NODES)
    first = inner(folder=tmp_path / "run")
    start(DifferentialPrivacyServerSideFixedClipping(first, 1.0, 0.5, NODES), grid, num_rounds=2)
    again, later = inner(folder=tmp_path / "run"), InProcessGrid(client_app(NODES), NODES)
    start(DifferentialPrivacyServerSideFixedClipping(again, 1.0, 0.5, NODES), later, num_rounds=3)
    old, new = weights(grid.asked[NODES]), weights(later.asked[0])
    for name, sent in weights(later.asked[0], "extras").items():
        plain = name.removeprefix("direction/")
        assert torch.equal(sent, old[plain] - new[plain])
