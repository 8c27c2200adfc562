"""The accuracy on each class, by the image's own class, with both engines."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import algorithm
from fedfor.data import ConceptShift, DataSplit, LabelledData, Partition, Samples, by_domain
from fedfor.engines import Engine, Exam, Score, SerialEngine, Training
from fedfor.engines.choose import EngineName
from fedfor.engines.vector import VectorEngine
from fedfor.experiments.simulate import simulate
from fedfor.experiments.simulation import MOST_CLASSES, _mean
from fedfor.models import mlp
from fedfor.protocol import Server

from ..conftest import made_data

pytestmark = pytest.mark.fast

ENGINES: list[Callable[..., Engine]] = [SerialEngine, VectorEngine]


class Brightest(nn.Module):
    """Answers with the number of the largest of the inputs; `bias` moves the answers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


def answers(*given: int, classes: int) -> Tensor:
    """Samples to which `Brightest` answers so."""
    return nn.functional.one_hot(torch.tensor(given), classes).float()


def scores(make: Callable[..., Engine], samples: Samples, *biases: list[float]) -> list[Score]:
    model = Brightest(samples.data.classes)
    engine = make(model, algorithm("fedavg"), Training(), 0)
    sent = Server("fedavg", model, 1).model
    models = [{**sent, "bias": torch.tensor(bias)} for bias in biases] or [sent]
    return engine.evaluate([Exam(model, samples) for model in models])


Y = torch.tensor([0, 0, 0, 1, 1, 3])
DATA = LabelledData("hand made", answers(0, 0, 1, 1, 1, 0, classes=4), Y, 4)


@pytest.mark.parametrize("make", ENGINES)
def test_by_hand(make: Callable[..., Engine]) -> None:
    """Two of three right of class 0, both of class 1, none of class 3; class 2 is not there."""
    [score] = scores(make, DATA.all_rows())
    assert score.by_class == (2 / 3, 1.0, None, 0.0)
    assert score.accuracy == 4 / 6
    rows = np.array([5, 0, 2, 2])
    [score] = scores(make, Samples(DATA, rows))
    assert score.by_class == (1 / 3, None, None, 0.0)
    assert score.accuracy == 1 / 4


@pytest.mark.parametrize("make", ENGINES)
def test_classes_are_those_of_the_images_not_of_their_labels(make: Callable[..., Engine]) -> None:
    """Class 0 is called 1 now, class 3 is called 0."""
    samples = Samples(DATA, np.arange(6), relabel=torch.tensor([1, 1, 2, 0]))
    [score] = scores(make, samples)
    assert score.by_class == (1 / 3, 1.0, None, 1.0)
    assert score.accuracy == 4 / 6


@pytest.mark.parametrize("make", ENGINES)
def test_every_model_has_its_own(make: Callable[..., Engine]) -> None:
    found = scores(make, DATA.all_rows(), [9, 0, 0, 0], [0, 9, 0, 0], [0, 0, 0, 0])
    assert [score.by_class for score in found] == [
        (1.0, 0.0, None, 0.0),
        (0.0, 1.0, None, 0.0),
        (2 / 3, 1.0, None, 0.0),
    ]


@pytest.mark.parametrize("make", ENGINES)
def test_over_several_batches(make: Callable[..., Engine]) -> None:
    """3,000 samples are tested in three parts, of classes that come and go."""
    y = torch.arange(3000) // 500
    said = torch.where(torch.arange(3000) % 10 < y, y, (y + 1) % 6)  # right y times out of 10
    data = LabelledData("long", answers(*said.tolist(), classes=6), y, 6)
    [score] = scores(make, data.all_rows())
    assert score.by_class == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert score.accuracy == 0.25


@pytest.mark.parametrize("name", ["fedavg", "fedbn"])
def test_engines_give_the_same(name: str) -> None:
    split = made_data(90)
    parts = np.array_split(np.random.default_rng(0).permutation(90), 3)
    runs = [
        simulate(
            name,
            ConceptShift(Partition(split, parts), seed=1, probability=0.5),
            "cnn-bn",
            rounds=3,
            lr=0.05,
            engine=engine,
        ).records
        for engine in ("serial", "vector")
    ]
    for serial, vector in zip(*runs, strict=True):
        assert serial["classes"] == vector["classes"]
        assert len(serial["classes"]) == 3
        assert np.mean(serial["classes"]) == pytest.approx(serial["accuracy"])  # 10 of each


def test_of_several_exams_the_mean_is_told() -> None:
    one, other = Score(0.5, 1.0, (0.25, None, 1.0)), Score(0.0, 3.0, (0.75, None, 0.0))
    assert _mean([one, other]) == Score(0.25, 2.0, (0.5, None, 0.5))
    assert _mean([Score(0.5, 1.0)]) == Score(0.5, 1.0, ())


@pytest.mark.parametrize("engine", ["serial", "vector"])
def test_with_domains_there_are_no_classes(engine: EngineName) -> None:
    def part(name: str) -> LabelledData:
        x, y = torch.randn(24, 1, 8, 8), torch.arange(24) % 3
        return LabelledData(name, x, y, 3, ("one", "two"), torch.arange(24) // 12)

    population = by_domain(DataSplit(part("train"), part("test")))
    [record] = simulate("fedavg", population, "mlp", rounds=1, engine=engine).records
    assert set(record["domains"]) == {"one", "two"}
    assert "classes" not in record


@pytest.mark.parametrize("classes", [MOST_CLASSES, MOST_CLASSES + 1])
def test_more_than_some_classes_are_not_recorded(classes: int) -> None:
    split = made_data(classes, classes)
    population = Partition(split, [np.arange(classes)])
    model = mlp((1, 8, 8), classes)
    [record] = simulate("fedavg", population, model, rounds=1, engine="serial").records
    if classes > MOST_CLASSES:
        assert "classes" not in record
    else:
        there = [share for share in record["classes"] if share is not None]
        assert (len(record["classes"]), len(there)) == (classes, 30)  # samples to test on
