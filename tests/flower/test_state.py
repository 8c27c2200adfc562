"""What clients keep stands only if their reply was used."""

import math

import pytest
import torch
from flwr.app import Message

import fedfor
from fedfor.engines import Job, SerialEngine
from fedfor.flower import Strategy
from fedfor.protocol import Kept, Server

from .app import SEED, TRAINING, client_app, new_model, population
from .grid import InProcessGrid

NODES, ROUNDS = 3, 4


def reference(name: str, cohorts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Round by round with the serial engine: whoever is not in a cohort keeps what it had."""
    algorithm = fedfor.algorithm(name)
    people, model = population(NODES), new_model(model_for(name))
    server = Server(algorithm, model, NODES)
    engine = SerialEngine(model, algorithm, TRAINING, SEED)
    states: dict[int, Kept | None] = {}
    for cohort in cohorts:
        message, replies = server.message(), []
        for k in cohort:
            job = Job(k, people.samples(k, 1), states.get(k))
            result = engine.client_update(message, job)
            states[k] = result.kept
            replies.append(result.reply)
        server.aggregate(replies, TRAINING.lr)
    return server.model


def model_for(name: str) -> str:
    return "cnn-bn" if "bn" in name else "mlp"


def run(name: str, grid: InProcessGrid, **options: object) -> Strategy:
    given = {"min_available_nodes": NODES, "min_train_nodes": NODES, "fraction_evaluate": 0}
    strategy = Strategy(name, new_model(model_for(name)), **(given | options))  # type: ignore[arg-type]
    strategy.start(grid, num_rounds=ROUNDS)
    return strategy


STATEFUL = ["scaffold", "feddyn", "fedcurv", "fedpd", "fedfor+fedbn", "feddyn+fedbn"]


@pytest.mark.parametrize("lost_in", [1, 2])
@pytest.mark.parametrize("name", STATEFUL)
def test_a_lost_reply_leaves_no_trace(name: str, lost_in: int) -> None:
    """Node 1 trains, but its reply is lost: the next round starts from what it had before."""
    grid = InProcessGrid(client_app(NODES, model_for(name)), NODES)
    calls = 0

    def lose(node: int, reply: Message) -> Message | None:
        nonlocal calls
        calls += 1
        return None if calls == NODES * (lost_in - 1) + 2 else reply

    grid.tamper = lose
    strategy = run(name, grid)
    cohorts = [[0, 2] if t == lost_in else [0, 1, 2] for t in range(1, ROUNDS + 1)]
    for key, tensor in reference(name, cohorts).items():
        assert torch.equal(strategy.server.model[key], tensor), key


@pytest.mark.parametrize("name", STATEFUL)
def test_a_round_that_is_tried_again_leaves_no_trace(name: str) -> None:
    grid = InProcessGrid(client_app(NODES, model_for(name)), NODES)
    calls = 0

    def lose(node: int, reply: Message) -> Message | None:
        nonlocal calls
        calls += 1
        return None if NODES < calls <= NODES + 2 else reply  # two of three, in round 2

    grid.tamper = lose
    strategy = run(name, grid)
    assert [r["attempts"] for r in strategy.records] == [1, 2, 1, 1]
    for key, tensor in reference(name, [[0, 1, 2]] * ROUNDS).items():
        assert torch.equal(strategy.server.model[key], tensor), key


def test_state_with_nan_is_not_kept() -> None:
    """A client that diverged once must not be lost for good."""
    broken = False

    def loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = torch.nn.functional.cross_entropy(outputs, y)
        return value * math.nan if broken else value

    grid = InProcessGrid(client_app(NODES, loss=loss), NODES)

    def breaks(node: int, reply: Message) -> Message:
        nonlocal broken
        broken = len(grid.asked) == NODES + 1  # while node 1 trains in round 2
        return reply

    grid.tamper = breaks
    strategy = run("feddyn", grid)
    assert [r["clients"] for r in strategy.records] == [3, 2, 3, 3]
    expected = reference("feddyn", [[0, 1, 2], [0, 2], [0, 1, 2], [0, 1, 2]])
    for key, tensor in expected.items():
        assert torch.equal(strategy.server.model[key], tensor), key
