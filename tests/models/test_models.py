"""The models of the FedFOR and FedBN papers: layer by layer, and on both engines."""

import copy
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import algorithm
from fedfor.data import Partition
from fedfor.engines import SerialEngine, Training
from fedfor.engines.vector import VectorEngine
from fedfor.errors import ConfigError
from fedfor.experiments.simulation import Simulation
from fedfor.models import build_model

from ..conftest import made_data
from ..engines.stacks import assert_same, double


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def conv(before: int, after: int, size: int) -> int:
    return before * after * size * size


@pytest.mark.fast
def test_parameters_of_resnet20() -> None:
    """Convolutions without bias, batch norm with two numbers a channel, shortcuts with none."""
    first = conv(3, 16, 3) + 2 * 16
    blocks_of_16 = 6 * (conv(16, 16, 3) + 2 * 16)
    blocks_of_32 = conv(16, 32, 3) + 2 * 32 + 5 * (conv(32, 32, 3) + 2 * 32)
    blocks_of_64 = conv(32, 64, 3) + 2 * 64 + 5 * (conv(64, 64, 3) + 2 * 64)
    last = 64 * 10 + 10
    by_hand = first + blocks_of_16 + blocks_of_32 + blocks_of_64 + last
    assert by_hand == 464 + 14_016 + 51_072 + 203_520 + 650 == 269_722
    assert parameters(build_model("resnet20", (3, 32, 32), 10)) == by_hand


@pytest.mark.fast
def test_parameters_of_the_digits_net() -> None:
    """Every layer with a bias, and batch norm with two numbers a channel after all but the last."""
    convolutions = (conv(3, 64, 5), conv(64, 64, 5), conv(64, 128, 5))
    assert convolutions == (4_800, 102_400, 204_800)
    linear = (7 * 7 * 128 * 2048, 2048 * 512, 512 * 10)
    assert linear == (12_845_056, 1_048_576, 5_120)
    normed, classes = 64 + 64 + 128 + 2048 + 512, 10
    by_hand = sum(convolutions) + sum(linear) + 3 * normed + classes
    assert by_hand == 14_219_210
    assert parameters(build_model("digits-net", (3, 28, 28), 10)) == by_hand


@pytest.mark.fast
def test_parameters_of_alexnet() -> None:
    """Every layer with a bias, and batch norm with two numbers a channel after all but the last."""
    convolutions = (
        conv(3, 64, 11),
        conv(64, 192, 5),
        conv(192, 384, 3),
        conv(384, 256, 3),
        conv(256, 256, 3),
    )
    assert convolutions == (23_232, 307_200, 663_552, 884_736, 589_824)
    linear = (6 * 6 * 256 * 4096, 4096 * 4096, 4096 * 10)
    assert linear == (37_748_736, 16_777_216, 40_960)
    normed, classes = 64 + 192 + 384 + 256 + 256 + 4096 + 4096, 10
    by_hand = sum(convolutions) + sum(linear) + 3 * normed + classes
    assert by_hand == 57_063_498
    assert parameters(build_model("alexnet-bn", (3, 256, 256), 10)) == by_hand


DIGITS_NET = """
    Conv2d 5/1 64 28 28 > BatchNorm2d > ReLU > MaxPool2d 2/2 64 14 14
    Conv2d 5/1 64 14 14 > BatchNorm2d > ReLU > MaxPool2d 2/2 64 7 7
    Conv2d 5/1 128 7 7 > BatchNorm2d > ReLU > Flatten 6272
    Linear 2048 > BatchNorm1d > ReLU
    Linear 512 > BatchNorm1d > ReLU
    Linear 10
"""

ALEXNET = """
    Conv2d 11/4 64 63 63 > BatchNorm2d > ReLU > MaxPool2d 3/2 64 31 31
    Conv2d 5/1 192 31 31 > BatchNorm2d > ReLU > MaxPool2d 3/2 192 15 15
    Conv2d 3/1 384 15 15 > BatchNorm2d > ReLU
    Conv2d 3/1 256 15 15 > BatchNorm2d > ReLU
    Conv2d 3/1 256 15 15 > BatchNorm2d > ReLU > MaxPool2d 3/2 256 7 7
    AdaptiveAvgPool2d 256 6 6 > Flatten 9216
    Linear 4096 > BatchNorm1d > ReLU
    Linear 4096 > BatchNorm1d > ReLU
    Linear 10
"""


def described(layer: nn.Module, output: Tensor) -> str:
    """Its kind, kernel and stride, and the shape of a sample after it."""
    words = [type(layer).__name__]
    if isinstance(layer, nn.Conv2d):
        words.append(f"{layer.kernel_size[0]}/{layer.stride[0]}")
    if isinstance(layer, nn.MaxPool2d):
        words.append(f"{layer.kernel_size}/{layer.stride}")
    if not isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d | nn.ReLU):
        words += map(str, output.shape[1:])
    return " ".join(words)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "shape", "table"),
    [("digits-net", (3, 28, 28), DIGITS_NET), ("alexnet-bn", (3, 256, 256), ALEXNET)],
    ids=["digits-net", "alexnet-bn"],
)
def test_layers_in_their_order(name: str, shape: tuple[int, ...], table: str) -> None:
    model, x, found = build_model(name, shape, 10).eval(), torch.zeros(1, *shape), []
    with torch.no_grad():
        for layer in model.children():
            x = layer(x)
            found.append(described(layer, x))
    assert found == re.split(r"\s*[>\n]\s*", table.strip())


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("digits-net", (64,), "of 4 x 4 or more, and the samples have shape (64,); use 'mlp'"),
        ("digits-net", (3, 28, 3), "digits-net takes images of shape (channels, height, width)"),
        ("alexnet-bn", (3, 256, 62), "of 63 x 63 or more, and the samples have shape (3, 256, 62)"),
        ("alexnet-bn", (256, 256), "alexnet-bn takes images of shape (channels, height, width)"),
    ],
)
def test_shapes_that_are_refused(name: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        build_model(name, shape, 10)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "shape"), [("digits-net", (1, 4, 5)), ("alexnet-bn", (1, 63, 70))]
)
def test_the_smallest_images(name: str, shape: tuple[int, ...]) -> None:
    model = build_model(name, shape, 7).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, *shape)).shape == (2, 7)


def small_digits_net() -> tuple[nn.Module, tuple[int, ...]]:
    return build_model("digits-net", (3, 12, 12), 3), (3, 12, 12)


def narrow_alexnet() -> tuple[nn.Module, tuple[int, ...]]:
    """With linear layers of 32, since those of 4096 take a minute; its images are the smallest
    whose average pooling has windows that overlap, as on 256 x 256."""
    shape = (3, 159, 159)
    layers = list(build_model("alexnet-bn", shape, 3).children())[:20]
    layers += [nn.Linear(9216, 32), nn.BatchNorm1d(32), nn.ReLU()]
    layers += [nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3)]
    return nn.Sequential(*layers), shape


@pytest.mark.parametrize("make", [small_digits_net, narrow_alexnet], ids=lambda m: m.__name__)
def test_both_engines_train_it(make: Callable[[], tuple[nn.Module, tuple[int, ...]]]) -> None:
    """In float64 to 1e-9 after a round of FedBN, with batches of 4 and 4, and of 4 and 3."""
    torch.manual_seed(0)
    model, shape = make()
    model.double()
    clients = Partition(double(made_data(15, 3, shape)), [np.arange(8), np.arange(8, 15)])
    chosen, training = algorithm("fedbn"), Training(batch_size=4, lr=0.05)

    def after_a_round(engine: type[SerialEngine] | type[VectorEngine]) -> Simulation:
        own = copy.deepcopy(model)
        worker = engine(own, chosen, training, 0)
        run = Simulation(clients, own, chosen, training, worker, cohort=2, seed=0)
        run.round(evaluate=False)
        return run

    ours, theirs = after_a_round(VectorEngine), after_a_round(SerialEngine)
    assert ours.engine.about["together"] == 2
    assert_same(ours, theirs)
