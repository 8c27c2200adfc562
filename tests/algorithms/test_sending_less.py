"""FedFOR with its direction sent in fewer bytes.

By hand: four weights, two clients. The loss is |w - y|^2 / 2, so the gradient is w - y; each client
takes two steps with learning rate 0.1, starting at w = 0. The targets are y = m + 1 and m - 1.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import Algorithm, FedFOR, algorithm
from fedfor.data import DataSplit
from fedfor.experiments.folder import RunFolder, sha256
from fedfor.experiments.run import run_in_folder, start_run
from fedfor.models import mlp
from fedfor.protocol import LocalRound, Reply, Server
from fedfor.protocol.compression import FORMS

from ..engines.stacks import assert_same, both, build
from ..experiments.test_run import config, finished
from .test_identities import same_bits, weights

MIDDLE = torch.tensor([-1.27, 0.124, -0.006, 0.0], dtype=torch.float64)
TARGETS = {"A": MIDDLE + 1, "B": MIDDLE - 1}


class FourWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4, dtype=torch.float64))


def two_rounds(client: FedFOR) -> tuple[Tensor, dict[str, list[float]]]:
    """The direction as clients see it in round 2, and where each ends."""
    model = FourWeights()
    server = Server(client, model, population=2)
    ends: dict[str, list[float]] = {}
    for _ in range(2):
        message, replies = server.message(), []
        for name, target in TARGETS.items():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            local = LocalRound(client, model, optimizer, message, steps=2)
            for _ in range(2):
                optimizer.zero_grad()
                (0.5 * (model.w - target).square().sum()).backward()
                optimizer.step()
            ends[name] = model.w.tolist()
            replies.append(local.finish(1)[0])
        server.aggregate(replies, 0.1)
    return message.extras["direction"]["w"], ends


@pytest.mark.parametrize(
    ("send", "direction"),
    [
        ("float32", [0.2413, -0.02356, 0.00114, 0.0]),
        # Steps of 2^-13, 2^-16 and 2^-20: 1976.7, 1544.03 and 1195.4 of them.
        ("float16", [1977 / 2**13, -1544 / 2**16, 1195 / 2**20, 0.0]),
        # Steps of 0.2413/127 = 0.0019: 127, -12.4, 0.6 and 0 of them.
        ("int8", [0.2413, -0.0228, 0.0019, 0.0]),
        # The mean is 0.19 * 1.4/4. The fourth weight did not move, which a bit cannot say.
        ("sign", [0.0665, -0.0665, 0.0665, 0.0665]),
    ],
)
def test_by_hand(send: str, direction: list[float]) -> None:
    got, ends = two_rounds(FedFOR(alpha=0.5, strength="loss", send=send))  # type: ignore[arg-type]
    # Round 1: two steps go 0.19 of the way, so the mean moves to 0.19 m, and d = -0.19 m.
    assert got.tolist() == pytest.approx(direction, abs=1e-8)
    # Round 2: again 0.19 of the way, 0.81 * 0.19 m + 0.19 y, less 0.1 * 0.5 d at the second step
    # where the first went against the global move. A went up by weights 2, 3 and 4, where the
    # global model had gone up, down and nowhere; B went down by all.
    a = [-0.246753, 0.2326436, 0.1879366, 0.19]
    b = [-0.626753, -0.1473564, -0.1920634, -0.19]
    a[2] -= 0.05 * direction[2]
    a[3] -= 0.05 * direction[3]
    b[1] -= 0.05 * direction[1]
    assert ends["A"] == pytest.approx(a, abs=1e-8)
    assert ends["B"] == pytest.approx(b, abs=1e-8)


def test_a_direction_beyond_float16_is_found_as_divergence() -> None:
    """The model went down by 1e5, which is sent as infinity; the client goes up, against it."""
    client = FedFOR(alpha=0.5, strength="loss", send="float16")
    model = FourWeights()
    server = Server(client, model, population=1)
    moved = {"w": model.w.detach() - 1e5}
    server.aggregate([Reply(moved, {}, 1, 1)], 0.1)
    message = server.message()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    local = LocalRound(client, model, optimizer, message, steps=2)
    for _ in range(2):
        model.w.grad = torch.full_like(model.w, -1.0)
        optimizer.step()
    reply, _ = local.finish(1)
    assert reply.problem(message, ()) == "model: NaN or infinity in 'w'"


@pytest.mark.parametrize("send", FORMS)
def test_no_penalty_is_fedavg_to_the_bit(split: DataSplit, send: str) -> None:
    none = algorithm("fedfor", alpha=0.0, send=send)
    assert same_bits(weights(split, none), weights(split, Algorithm()))


@pytest.mark.parametrize("send", FORMS)
def test_each_form_does_something_of_its_own(split: DataSplit, send: str) -> None:
    sent = weights(split, algorithm("fedfor", send=send))
    assert not same_bits(sent, weights(split, algorithm("fedfor")))
    assert not same_bits(sent, weights(split, Algorithm()))


@pytest.mark.parametrize("send", FORMS)
def test_both_engines_give_the_same(send: str) -> None:
    ours, theirs = both(build(mlp), f"fedfor,send={send}", rounds=3)
    assert_same(ours, theirs)


@pytest.mark.parametrize("send", FORMS)
def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, send: str) -> None:
    settings = config("fedfor", f"algorithm.send={send}")
    unbroken = finished(tmp_path / "unbroken", settings)
    folder = RunFolder(tmp_path / "stopped")
    start_run(folder, settings)

    def interrupt(record: dict[str, object]) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(folder, interrupt)
    run_in_folder(folder)
    assert sha256(folder.model_path) == sha256(unbroken.model_path)
    exact = finished(tmp_path / "exact", config("fedfor"))
    for got, rest, whole in zip(folder.records(), unbroken.records(), exact.records(), strict=True):
        for key in ("train_loss", "accuracy", "down_cross_device", "down_cross_silo"):
            assert got[key] == rest[key]
        assert got["down_cross_silo"] <= whole["down_cross_silo"]
        assert (got["down_cross_device"] < whole["down_cross_device"]) == (got["round"] > 1)
