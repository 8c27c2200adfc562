from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfor.data import (
    DataSplit,
    DirichletDraws,
    IidDraws,
    LabelledData,
    LongTail,
    Partition,
    Population,
    by_domain,
    digit_domains,
    digits,
    dirichlet_split,
    iid_split,
    sample_cohort,
    shards,
)
from fedfor.errors import ConfigError, DataError

from ..conftest import made_data

pytestmark = pytest.mark.fast


def labels(population: Population, client: int) -> Counter[int]:
    return Counter(population.samples(client, 1).all()[1].tolist())


def is_partition(population: Population) -> bool:
    """Every training sample belongs to exactly one client."""
    rows = np.concatenate([population.rows(k) for k in range(population.size)])
    return sorted(rows) == list(range(len(population.train)))


def big() -> DataSplit:
    """10 classes of 500, so that 10 % of a class are 50."""
    return made_data(samples=5000, classes=10, shape=(2,))


def test_the_papers_long_tail() -> None:
    population = LongTail(big(), clients=10**10, seed=0)
    counts = sorted(labels(population, 7_777_777_777).values(), reverse=True)
    # 50 * 0.01 ** (i/9), cut to whole numbers; a class with none is not listed
    assert counts == [n for i in range(10) if (n := int(50 * 0.01 ** (i / 9)))]
    rows = population.rows(3)
    assert len(set(rows)) == len(rows)


def test_a_long_tail_of_cifars_size_is_about_two_and_a_half_per_cent() -> None:
    y = torch.arange(50_000) % 10
    data = LabelledData("like CIFAR-10", torch.zeros(50_000, 1), y, 10)
    population = LongTail(DataSplit(data, data), clients=10, seed=0)
    assert len(population.rows(0)) == 1236


def test_a_head_makes_clients_of_one_size_from_data_of_any() -> None:
    y = torch.arange(9_000) % 10  # 900 of a class
    data = LabelledData("made", torch.zeros(9_000, 1), y, 10)
    population = LongTail(DataSplit(data, data), clients=10, seed=0, head=500)
    assert len(population.rows(0)) == 1236  # as a tenth of CIFAR-10
    few = LongTail(big(), clients=10, seed=0, ratio=1.0, head=10**6)
    assert len(few.rows(0)) == 5000  # all there are
    with pytest.raises(ConfigError, match=r"population.head must be at least 1"):
        LongTail(big(), 10, 0, head=0)
    with pytest.raises(ConfigError, match="give one of them"):
        LongTail(big(), 10, 0, head=5, share=0.1)


def test_clients_have_tails_of_their_own() -> None:
    population = LongTail(big(), clients=10**10, seed=0)
    heads = {labels(population, k).most_common(1)[0][0] for k in range(40)}
    assert len(heads) == 10


@pytest.mark.parametrize(
    "make",
    [
        lambda s, seed: LongTail(s, 10**10, seed),
        lambda s, seed: DirichletDraws(s, 10**10, seed, 0.3, 20),
        lambda s, seed: IidDraws(s, 10**10, seed, 20),
    ],
)
def test_drawn_clients_are_always_the_same_and_unlike_each_other(make: object) -> None:
    split = big()
    one, again, other = (make(split, seed) for seed in (1, 1, 2))  # type: ignore[operator]
    for client in (0, 5, 10**10 - 1):
        assert np.array_equal(one.rows(client), again.rows(client))
        assert not np.array_equal(one.rows(client), other.rows(client))
    assert not np.array_equal(one.rows(1), one.rows(2))


def test_dirichlet_draws_have_the_size_asked_for() -> None:
    population = DirichletDraws(made_data(), 1000, 0, 0.1, 50)
    assert all(len(population.rows(k)) == 50 for k in range(20))


def test_small_alpha_makes_few_classes() -> None:
    def classes(alpha: float) -> float:
        population = DirichletDraws(big(), 100, 0, alpha, 50)
        return float(np.mean([len(labels(population, k)) for k in range(100)]))

    assert classes(0.01) < 2
    assert classes(0.1) < classes(1.0) < classes(100.0)
    assert classes(100.0) > 9.5


def test_alpha_may_be_absurdly_small() -> None:
    population = DirichletDraws(big(), 10, 0, 1e-300, 50)
    assert all(len(labels(population, k)) == 1 for k in range(10))


@given(clients=st.integers(1, 12), seed=st.integers(0, 2**31), alpha=st.floats(0.3, 100))
@settings(max_examples=40, deadline=None)
def test_splits_deal_out_everything_once(clients: int, seed: int, alpha: float) -> None:
    split = made_data(samples=300, shape=(2,))
    assert is_partition(iid_split(split, clients, seed))
    assert is_partition(shards(split, clients, seed))
    assert is_partition(dirichlet_split(split, clients, seed, alpha))


def test_shards_have_few_classes() -> None:
    population = shards(big(), 100, seed=0, shards_per_client=2)
    assert max(len(labels(population, k)) for k in range(100)) <= 2
    assert {len(population.rows(k)) for k in range(100)} == {50}


def test_one_client_per_domain() -> None:
    population = by_domain(digit_domains())
    assert population.size == 5
    tests = population.tests(1)
    assert [(t.name, t.owner) for t in tests] == list(
        zip(("plain", "inverted", "textured", "blurred", "rendered"), range(5), strict=True)
    )
    assert all(len(t.samples) == 599 for t in tests)
    for k in range(5):
        samples = population.samples(k, 1)
        assert samples.data.domain is not None
        assert set(samples.data.domain[torch.from_numpy(samples.rows)].tolist()) == {k}


def test_domains_need_data_with_domains() -> None:
    with pytest.raises(ConfigError, match="needs data with domains, and digits"):
        by_domain(digits())


class Own(Population):
    def rows(self, client: int) -> list[int]:  # type: ignore[override]
        return [0, 1, 10**6] if client == 1 else [0, 1]


def test_populations_of_ones_own() -> None:
    population = Own(made_data(), 2)
    assert len(population.samples(0, 1).all()[1]) == 2
    with pytest.raises(DataError, match="client 1 has rows beyond the 60 samples"):
        population.samples(1, 1)
    for nobody in (-1, 2):
        with pytest.raises(DataError, match=f"there is no client {nobody}"):
            population.samples(nobody, 1)


def test_more_clients_than_samples_cannot_share_them() -> None:
    for make in (iid_split, shards, lambda s, n, seed: dirichlet_split(s, n, seed, 1.0)):
        with pytest.raises(DataError, match="10000000000 clients cannot share 60 samples"):
            make(made_data(), 10**10, 0)  # type: ignore[operator]


def test_a_client_without_data_is_named() -> None:
    split = made_data()
    with pytest.raises(DataError, match="client 1 has no data; take fewer clients"):
        Partition(split, [np.arange(3), np.arange(0)])
    with pytest.raises(DataError, match=r"client 0 has no data; raise population.share"):
        LongTail(split, 10, 0, share=0.001).samples(0, 1)
    with pytest.raises(DataError, match=r"client \d+ has no data: Dirichlet\(0.01\) over 50"):
        dirichlet_split(split, 50, 0, 0.01)


@pytest.mark.parametrize("n", [1, 10, 10**10, 10**15])
def test_cohorts(n: int) -> None:
    k = min(n, 10)
    cohort = sample_cohort(0, 1, n, k)
    assert len(set(cohort)) == k
    assert cohort == sorted(cohort) == sample_cohort(0, 1, n, k)
    assert all(0 <= c < n for c in cohort)
    if n > 10:
        assert cohort != sample_cohort(0, 2, n, k)
        assert cohort != sample_cohort(1, 1, n, k)


def test_all_clients_are_called_alike() -> None:
    counts = Counter(c for t in range(2000) for c in sample_cohort(0, t, 20, 5))
    assert min(counts.values()) > 400
    assert max(counts.values()) < 600


def test_a_cohort_larger_than_the_population_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cohort is 6 but the population has 5 clients"):
        sample_cohort(0, 1, 5, 6)
