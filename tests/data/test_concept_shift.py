import pytest
import torch

from fedfor.data import ConceptShift, IidDraws

from ..conftest import made_data

pytestmark = pytest.mark.fast


def shifting(probability: float = 0.05, seed: int = 0, classes: int = 5) -> ConceptShift:
    split = made_data(samples=100, classes=classes, shape=(2,))
    return ConceptShift(IidDraws(split, 10, 0, 30), seed, probability)


def test_about_ten_shifts_in_two_hundred_rounds() -> None:
    counts = [sum(shifting(seed=s).shift(t) is not None for t in range(1, 201)) for s in range(50)]
    assert 8 < sum(counts) / len(counts) < 12


def test_a_shift_gives_one_class_another_label_until_it_is_changed_again() -> None:
    population = shifting(0.5)
    changes = 0
    for t in range(1, 100):
        before, after = population.labels(t - 1), population.labels(t)
        shift = population.shift(t)
        if shift is None:
            assert torch.equal(before, after)
            continue
        changes += 1
        assert shift["from"] == before[shift["class"]]
        assert shift["to"] == after[shift["class"]] != before[shift["class"]]
        assert (before != after).sum() == 1
        assert 0 <= shift["to"] < 5
    assert changes > 30


def test_clients_and_test_data_shift_alike() -> None:
    population = shifting(1.0)
    labels = population.labels(4)
    assert not torch.equal(labels, torch.arange(5))
    for samples in (population.samples(3, 4), population.tests(4)[0].samples):
        true = samples.data.y[torch.from_numpy(samples.rows)]
        assert torch.equal(samples.all()[1], labels[true])


def test_the_sequence_depends_on_the_seed_and_the_round_alone() -> None:
    forward, at_once = shifting(0.3), shifting(0.3)
    each = [forward.labels(t) for t in range(40)]
    assert torch.equal(at_once.labels(39), each[39])
    assert torch.equal(at_once.labels(10), each[10])
    assert not torch.equal(shifting(0.3, seed=1).labels(39), each[39])


def test_all_labels_are_drawn_alike() -> None:
    """The new label is any of the others, with equal chance."""
    population = shifting(1.0, classes=3)
    moves = [population.shift(t) for t in range(1, 1500)]
    steps = [(m["to"] - m["from"]) % 3 for m in moves if m]
    assert set(steps) == {1, 2}
    assert 0.4 < steps.count(1) / len(steps) < 0.6
