import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfor.engines.batches import plan_batches

pytestmark = pytest.mark.fast


@given(
    samples=st.integers(1, 100),
    batch_size=st.integers(1, 40),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_each_epoch_sees_every_sample_once(
    samples: int, batch_size: int, epochs: int, seed: int
) -> None:
    batches = plan_batches(samples, batch_size, epochs, np.random.default_rng(seed))
    left_out = samples % batch_size == 1 and samples > 1 and batch_size > 1
    assert sum(map(len, batches)) == epochs * (samples - left_out)
    per_epoch = len(batches) // epochs
    assert per_epoch * epochs == len(batches)
    for e in range(epochs):
        seen = np.concatenate(batches[e * per_epoch : (e + 1) * per_epoch])
        assert len(set(seen)) == len(seen) == samples - left_out
        assert set(seen) <= set(range(samples))
    assert all(1 <= len(b) <= batch_size for b in batches)


def test_a_lone_last_sample_is_left_out() -> None:
    sizes = [len(b) for b in plan_batches(9, 4, 1, np.random.default_rng(0))]
    assert sizes == [4, 4]


@pytest.mark.parametrize(("samples", "batch_size"), [(1, 4), (3, 1)])
def test_but_not_where_nothing_else_is_there(samples: int, batch_size: int) -> None:
    sizes = [len(b) for b in plan_batches(samples, batch_size, 1, np.random.default_rng(0))]
    assert sizes == [1] * samples


def test_epochs_are_shuffled_anew() -> None:
    first, second = plan_batches(20, 20, 2, np.random.default_rng(0))
    assert not np.array_equal(first, second)
