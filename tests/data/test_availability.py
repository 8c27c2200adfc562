import math
import random
import statistics
import tracemalloc
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfor.data import (
    Availability,
    Call,
    Caller,
    ConceptShift,
    DataSplit,
    DirichletDraws,
    IidDraws,
    LabelledData,
    LongTail,
    Partition,
    Population,
    iid_split,
    sample_cohort,
)
from fedfor.data.availability import Behaviour
from fedfor.data.calling import LOOKED_AT, LOOKED_AT_MORE
from fedfor.data.population import candidates
from fedfor.errors import ConfigError
from fedfor.randomness import entropy

from ..conftest import made_data, trace

pytestmark = pytest.mark.fast

SPLIT = made_data(samples=200, shape=(2,))
UNEVEN = DataSplit(
    LabelledData("uneven", torch.zeros(200, 2), torch.arange(200) // 120, 2), SPLIT.test
)
ALIKE = {"called": 0, "away": 0, "dropped": 0, "late": 0, "surplus": 0, "waited": 1.0}


def having(*sizes: int) -> Partition:
    """Clients with so many examples."""
    return Partition(SPLIT, [np.arange(n) for n in sizes])


def many(clients: int = 10**10) -> Population:
    return IidDraws(SPLIT, clients, seed=0, samples_per_client=5)


SIX: list[dict[str, Any]] = [
    {},
    {"speed": 0.5},
    {"dropout": 1},
    {"there": [[0, 1]], "period": 2},
    {"speed": 2},
    {"speed": 0.25},
]
"""Reporting at 1, 2, never, 1 (in every other round), 0.5 and 4."""


def six(folder: Path, cohort: int = 3, **changed: Any) -> Caller:
    """Twice as many are called as there should be: all six."""
    how = Availability(**{"over_sampling": 2, "trace": trace(folder, *SIX), **changed})
    return Caller(having(*[10] * 6), cohort, 0, how)


def test_a_round_by_hand(tmp_path: Path) -> None:
    caller = six(tmp_path, deadline=3)
    told = {"called": 6, "away": 0, "dropped": 1, "late": 1, "surplus": 1, "waited": 1.0}
    assert caller.call(1) == Call(1, [0, 1, 2, 3, 4, 5], [0, 3, 4], told)
    told = {"called": 5, "away": 1, "dropped": 1, "late": 1, "surplus": 0, "waited": 2.0}
    assert caller.call(2) == Call(2, [0, 1, 2, 4, 5], [0, 1, 4], told)
    assert caller.call(3).clients == [0, 3, 4]


def test_a_server_waits_for_the_cohort_else_for_those_who_are_late(
    tmp_path: Path,
) -> None:
    def waited(**how: Any) -> float:
        return six(tmp_path, **how).call(1).told["waited"]  # type: ignore[no-any-return]

    assert waited(cohort=1, deadline=3, over_sampling=6) == 0.5
    assert waited(cohort=4, deadline=3) == 2
    assert waited(cohort=5, deadline=3) == 3  # four of the five are there in time
    assert waited(cohort=6, deadline=7) == 4  # one dropped out, and nobody else is to come
    assert waited(cohort=6) == 4


def test_a_report_at_the_deadline_counts(tmp_path: Path) -> None:
    call = six(tmp_path, deadline=1).call(1)
    assert (call.clients, call.told["late"]) == ([0, 3, 4], 2)
    call = six(tmp_path, deadline=math.nextafter(1, 0)).call(1)
    assert (call.clients, call.told["late"]) == ([4], 4)


def test_a_round_with_too_few_reports_is_abandoned(tmp_path: Path) -> None:
    enough = six(tmp_path, deadline=0.75, least=1).call(1)
    assert enough.clients == [4]
    assert "abandoned" not in enough.told
    too_few = six(tmp_path, deadline=0.75, least=2).call(1)
    assert (too_few.called, too_few.clients) == (enough.called, [])
    assert too_few.told == {**enough.told, "abandoned": True}


def test_of_reports_at_the_same_time_those_called_first_count() -> None:
    """Whom the round would have had without over-sampling."""
    population = having(5, 5, 5, 5)
    for t in range(1, 20):
        call = Caller(population, 2, 0, Availability(over_sampling=2)).call(t)
        assert (call.called, call.clients) == ([0, 1, 2, 3], sample_cohort(0, t, 4, 2))
        assert call.told == {**ALIKE, "called": 4, "surplus": 2}


@pytest.mark.parametrize("deadline", [None, 2.0])
def test_nobody_counts_less_often_for_a_number(deadline: float | None) -> None:
    """Where all are as fast and have as much, chance alone decides whose reports count."""
    how = Availability(dropout=0.1, over_sampling=1.5, deadline=deadline)
    asked, often = Caller(having(*[5] * 40), 10, 0, how), [0] * 40
    for t in range(1, 1201):
        for k in asked.call(t).clients:
            often[k] += 1
    expected = 1200 * 10 / 40
    assert sum(often) > 0.99 * 12_000
    assert all(abs(n - expected) < 5 * math.sqrt(expected) for n in often), often


def test_a_deadline_is_waited_for_if_somebody_is_late(tmp_path: Path) -> None:
    """Not for those of whom it is known that they will not come."""
    gone = trace(tmp_path, {"dropout": 1}, {}, {"speed": 0.5})
    call = Caller(having(5, 5, 5), 3, 0, Availability(trace=gone, deadline=100)).call(1)
    assert (call.clients, call.told["waited"]) == ([1, 2], 2.0)
    call = Caller(having(5, 5, 5), 3, 0, Availability(trace=gone, deadline=1.5)).call(1)
    assert (call.clients, call.told["waited"]) == ([1], 1.5)


def test_a_rate_with_which_rounds_stay_small_is_told() -> None:
    told = Caller(many(10**10), 10, 0, Availability(rate=0.001)).shortage()
    assert told == (
        "availability.rate is 0.001, and a server looks at 2,000 clients a round: about 2 of 10 "
        "will be called"
    )
    assert Caller(many(2000), 10, 0, Availability(rate=0.001)).shortage() is None  # all of them
    for enough in (Availability(rate=0.01), Availability(rate=0.005), None):
        assert Caller(many(10**10), 10, 0, enough).shortage() is None


def test_clients_with_more_data_take_longer(tmp_path: Path) -> None:
    population = having(6, 1, 3, 2)  # 3 on average
    call = Caller(population, 4, 0, Availability()).call(1)
    assert call.told["waited"] == 2
    call = Caller(population, 4, 0, Availability(deadline=1)).call(1)
    assert (call.clients, call.told["late"], call.told["waited"]) == ([1, 2, 3], 1, 1)
    # The mean is that of the called: without the first, 2.
    how = Availability(trace=trace(tmp_path, {"there": []}, {}, {}, {}))
    call = Caller(population, 4, 0, how).call(1)
    assert (call.called, call.told["waited"]) == ([1, 2, 3], 1.5)


class Untold(Population):
    def rows(self, client: int) -> np.ndarray[Any, Any]:
        return np.arange(client + 1)


class Unsure(Untold):
    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return (0, None)[client % 2]


class Nothing(Untold):
    def examples(self, client: int, round: int) -> int | None:  # noqa: A002
        return 0


@pytest.mark.parametrize("kind", [Untold, Unsure, Nothing])
def test_where_the_amount_of_data_is_not_known_all_take_the_same(kind: type[Population]) -> None:
    call = Caller(kind(SPLIT, 4), 4, 0, Availability(deadline=1)).call(1)
    assert (call.clients, call.told) == ([0, 1, 2, 3], {**ALIKE, "called": 4})


@pytest.mark.parametrize(
    "population",
    [
        having(3, 1, 4, 1, 5),
        LongTail(UNEVEN, 10**10, 0, share=0.5),
        LongTail(SPLIT, 10**10, 0, ratio=0.2, head=7),
        DirichletDraws(SPLIT, 10**10, 0, 0.3, 9),
        IidDraws(SPLIT, 10**10, 0, 300),
        iid_split(SPLIT, 7, 0),
        ConceptShift(having(3, 1, 4, 1, 5), 0, 0.5),
    ],
)
def test_populations_tell_how_much_data_a_client_has(population: Population) -> None:
    for client in range(5):
        assert population.examples(client, 2) == len(population.samples(client, 2))


def before(seed: int, t: int, n: int, k: int) -> list[int]:
    """Cohorts as published numbers were made with."""
    return sorted(random.Random(entropy(seed, "cohort", t)).sample(range(n), k))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (20, 5), (30, 30), (100, 10), (10**10, 80)])
def test_where_everyone_is_there_the_cohort_is_the_old_one(n: int, k: int) -> None:
    for seed in (0, 3):
        plain = Caller(many(n), k, seed)
        default = Caller(many(n), k, seed, Availability())
        for t in (1, 2, 200):
            clients = before(seed, t, n, k)
            assert sample_cohort(seed, t, n, k) == clients
            call = plain.call(t)
            assert call == Call(t, clients, clients, {})
            assert call.called is not call.clients
            assert default.call(t) == Call(t, clients, clients, {**ALIKE, "called": k})


def test_over_sampling_calls_others_beside_the_cohort() -> None:
    for n in (20, 10**10):
        call = Caller(many(n), 10, 0, Availability(over_sampling=1.5)).call(1)
        assert len(set(call.called)) == 15
        assert call.called == sorted(call.called)
        assert set(before(0, 1, n, 10)) < set(call.called)


@pytest.mark.parametrize(
    ("over_sampling", "called"), [(1, 100), (1.1, 110), (1.3, 130), (1.001, 101), (1.311, 132)]
)
def test_over_sampling_is_exact(over_sampling: float, called: int) -> None:
    # In floats 100 * 1.1 is more than 110, and would be rounded up to 111.
    how = Availability(over_sampling=over_sampling)
    assert len(Caller(many(), 100, 0, how).call(1).called) == called


def test_no_more_are_called_than_there_are() -> None:
    call = Caller(many(12), 10, 0, Availability(over_sampling=5)).call(1)
    assert call.called == list(range(12))
    assert call.told["surplus"] == 2


def test_candidates_are_all_members_once_in_random_order() -> None:
    first = Counter[int]()
    later = Counter[int]()
    for t in range(2000):
        order = list(candidates(0, t, 20, 5))
        assert sorted(order) == list(range(20))
        first.update(order[:5])
        later.update(order[5:10])
    for counts in (first, later):  # 500 each, with a deviation of 19
        assert min(counts.values()) > 420
        assert max(counts.values()) < 580


@pytest.mark.parametrize("n", [40, 10**10])
def test_a_round_is_a_function_of_seed_and_round_alone(n: int, tmp_path: Path) -> None:
    how = Availability(0.5, 0.2, 0.7, 1.5, 1.2, 2, trace(tmp_path, {}, {"speed": 0.9}))
    caller = Caller(many(n), 10, 0, how)
    calls = [caller.call(t) for t in range(1, 30)]
    assert len({tuple(call.clients) for call in calls}) > 20
    again = Caller(many(n), 10, 0, how)
    for t in random.Random(0).sample(range(1, 30), 29):
        assert again.call(t) == calls[t - 1]
    calls[4].clients.clear()
    calls[4].told.clear()
    assert caller.call(5) == again.call(5)
    assert Caller(many(n), 10, 1, how).call(5) != again.call(5)


def test_the_last_round_that_counted_is_known_from_wherever_one_begins() -> None:
    how = Availability(dropout=0.5, least=6)
    asked = Caller(many(), 10, 0, how)
    counted = [t for t in range(1, 60) if asked.call(t).clients]
    assert 5 < len(counted) < 40
    assert max(b - a for a, b in pairwise(counted)) > 3
    last = [max((c for c in counted if c <= t), default=0) for t in range(60)]
    assert [asked.last_counted(t) for t in range(60)] == last  # as a run asks
    for t in random.Random(0).sample(range(60), 60):
        assert asked.last_counted(t) == last[t]
        assert Caller(many(), 10, 0, how).last_counted(t) == last[t]  # as one that is resumed
    assert Caller(many(), 10, 0).last_counted(59) == 59


def test_rates_are_met() -> None:
    how = Availability(rate=0.3, dropout=0.2, over_sampling=1.3)
    told = [Caller(many(), 10, seed, how).call(t).told for seed in range(4) for t in range(1, 201)]
    keys = ("called", "away", "dropped")
    called, away, dropped = (sum(each[key] for each in told) for key in keys)
    assert called == 4 * 200 * 13  # there are enough of them
    assert 0.29 < called / (called + away) < 0.31  # a deviation of 0.0025
    # Who is there says nothing of who drops out.
    assert 0.18 < dropped / called < 0.22  # a deviation of 0.004


def test_a_client_comes_and_goes() -> None:
    caller = Caller(many(1), 1, 0, Availability(rate=0.4))
    there = [bool(caller.call(t).called) for t in range(1, 2001)]
    assert 0.36 < sum(there) / 2000 < 0.44  # a deviation of 0.011
    changes = sum(a != b for a, b in pairwise(there))
    assert 0.43 < changes / 1999 < 0.53  # 2 * 0.4 * 0.6, were each round by itself
    caller = Caller(many(1), 1, 0, Availability(dropout=0.4))
    dropped = sum(caller.call(t).told["dropped"] for t in range(1, 2001))
    assert 0.36 < dropped / 2000 < 0.44


def test_speeds_are_log_normal_and_stay() -> None:
    behaviour = Behaviour(Availability(slowness=0.5), 0, 10**10)
    logs = [math.log(behaviour.speed(k)) for k in range(4000)]
    assert abs(statistics.median(logs)) < 0.04  # a deviation of 0.01
    assert 0.48 < statistics.stdev(logs) < 0.52  # a deviation of 0.006
    assert 0.13 < sum(log < -0.5 for log in logs) / 4000 < 0.19  # 0.159 of a normal's
    caller = Caller(many(1), 1, 0, Availability(slowness=0.5))
    waited = {caller.call(t).told["waited"] for t in range(1, 20)}
    assert waited == {1 / behaviour.speed(0)}
    assert {Behaviour(Availability(), 0, 5).speed(k) for k in range(5)} == {1.0}


def test_the_slow_are_left_out() -> None:
    how = Availability(slowness=0.5, over_sampling=1.5)
    behaviour = Behaviour(how, 0, 10**10)
    call = Caller(many(), 20, 0, how).call(1)
    out = set(call.called) - set(call.clients)
    assert len(out) == call.told["surplus"] == 10
    assert max(map(behaviour.speed, out)) < min(map(behaviour.speed, call.clients))


@pytest.mark.parametrize("n", [10**10, 10**18])
def test_a_large_population_costs_no_more(n: int) -> None:
    population = many(n)
    tracemalloc.start()
    told = Caller(population, 10, 0, Availability(rate=0, over_sampling=1.3)).call(1).told
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told["away"] == 13 * LOOKED_AT + LOOKED_AT_MORE  # it was given up then
    assert peak < 2**21


def test_where_few_are_there_fewer_are_called() -> None:
    call = Caller(many(), 10, 0, Availability(rate=0.001)).call(1)
    assert 0 < len(call.called) < 10
    assert call.clients == call.called
    assert call.told["away"] + call.told["called"] == 10 * LOOKED_AT + LOOKED_AT_MORE


def test_everybody_away() -> None:
    told = {**ALIKE, "away": 8, "waited": 0.0, "abandoned": True}
    assert Caller(many(8), 3, 0, Availability(rate=0)).call(1) == Call(1, [], [], told)
    call = Caller(many(8), 3, 0, Availability(rate=0, deadline=2)).call(1)
    assert call.told == told  # nobody is to come, so nobody is waited for


def test_everybody_drops_out() -> None:
    call = Caller(many(8), 3, 0, Availability(dropout=1)).call(1)
    told = {**ALIKE, "called": 3, "dropped": 3, "waited": 0.0, "abandoned": True}
    assert call == Call(1, before(0, 1, 8, 3), [], told)


def test_a_deadline_that_nobody_makes() -> None:
    call = Caller(many(8), 3, 0, Availability(deadline=0.5)).call(1)
    told = {**ALIKE, "called": 3, "late": 3, "waited": 0.5, "abandoned": True}
    assert call == Call(1, before(0, 1, 8, 3), [], told)


def test_what_a_device_does_not_say_is_left_to_chance(tmp_path: Path) -> None:
    gone: dict[str, Any] = {"there": []}
    devices = trace(tmp_path, {"there": [[0, 10**6]]}, gone, {"speed": 0.1})
    how = Availability(rate=0, dropout=1, slowness=1, trace=devices)
    behaviour = Behaviour(how, 0, 3)
    assert [behaviour.is_there(k, 7) for k in range(3)] == [True, False, False]
    assert [behaviour.drops_out(k, 7) for k in range(3)] == [True, True, True]
    by_chance = Behaviour(Availability(slowness=1), 0, 3)
    assert [behaviour.speed(k) for k in range(3)] == [by_chance.speed(0), by_chance.speed(1), 0.1]
    how = Availability(rate=1, trace=trace(tmp_path, gone, {"dropout": 1}, {}))
    behaviour = Behaviour(how, 0, 3)
    assert [behaviour.is_there(k, 7) for k in range(3)] == [False, True, True]
    assert [behaviour.drops_out(k, 7) for k in range(3)] == [False, True, False]
    how = Availability(dropout=1, trace=trace(tmp_path, {"dropout": 0}, {}))
    assert [Behaviour(how, 0, 2).drops_out(k, 7) for k in range(2)] == [False, True]


def test_more_clients_than_devices_are_given_one_each(tmp_path: Path) -> None:
    how = Availability(trace=trace(tmp_path, {"speed": 1}, {"speed": 2}, {"speed": 3}))
    assert [Behaviour(how, 0, 3).speed(k) for k in range(3)] == [1, 2, 3]
    assert [Behaviour(how, 0, 2).speed(k) for k in range(2)] == [1, 2]
    speeds = [Behaviour(how, 0, 4).speed(k) for k in range(3000)]
    counts = Counter(speeds)
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > 900  # 1000, with a deviation of 26
    assert speeds == [Behaviour(how, 0, 10**10).speed(k) for k in range(3000)]
    assert speeds != [Behaviour(how, 1, 4).speed(k) for k in range(3000)]


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=15),
    cohort=st.integers(1, 15),
    least=st.integers(1, 15),
    rate=st.floats(0, 1),
    dropout=st.floats(0, 1),
    slowness=st.floats(0, 10),
    percent=st.integers(100, 10000),
    deadline=st.none() | st.floats(0.01, 10),
    seed=st.integers(0, 2**31),
    t=st.integers(1, 1000),
)
@settings(max_examples=200, deadline=None)
def test_counts_add_up(
    sizes: list[int], cohort: int, least: int, percent: int, seed: int, t: int, **how: Any
) -> None:
    cohort = min(cohort, len(sizes))
    least = min(least, cohort)
    availability = Availability(least=least, over_sampling=percent / 100, **how)
    call = Caller(having(*sizes), cohort, seed, availability).call(t)
    told = call.told
    assert len(call.called) == told["called"]
    assert call.called == sorted(set(call.called))
    assert call.clients == sorted(set(call.clients))
    assert set(call.clients) <= set(call.called) <= set(range(len(sizes)))
    wanted = min(len(sizes), -(-cohort * percent // 100))  # rounded up
    assert told["called"] == wanted or told["called"] + told["away"] == len(sizes)
    counted = told["called"] - told["dropped"] - told["late"] - told["surplus"]
    assert 0 <= counted <= cohort
    assert told.get("abandoned", False) == (counted < least) == (not call.clients)
    assert len(call.clients) in (counted, 0)
    assert told["surplus"] == 0 or counted == cohort
    assert math.isfinite(told["waited"])
    assert (told["waited"] > 0) == bool(counted or told["late"])
    assert how["deadline"] is None or told["waited"] <= how["deadline"]
    assert how["deadline"] is not None or told["late"] == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate": 1.1}, "availability: rate must be 0 or more, at most 1 (got 1.1)"),
        ({"rate": -0.1}, "availability: rate must be 0 or more, at most 1 (got -0.1)"),
        ({"rate": "half"}, "availability: rate must be a finite number, 0 or more, at most 1"),
        ({"dropout": 2}, "availability: dropout must be 0 or more, at most 1 (got 2)"),
        ({"dropout": math.nan}, "availability: dropout must be a finite number"),
        ({"slowness": -1}, "availability: slowness must be 0 or more, at most 10 (got -1)"),
        ({"slowness": 11}, "availability: slowness must be 0 or more, at most 10 (got 11)"),
        ({"over_sampling": 0.9}, "over_sampling must be 1 or more, at most 100 (got 0.9)"),
        ({"over_sampling": math.inf}, "over_sampling must be a finite number"),
        ({"deadline": 0}, "availability: deadline must be greater than 0 (got 0)"),
        ({"deadline": math.inf}, "availability: deadline must be a finite number"),
        ({"least": 0}, "availability: least must be 1 or more (got 0)"),
        ({"least": 1.5}, "availability: least must be a whole number (got 1.5)"),
    ],
)
def test_wrong_settings_are_told_in_a_sentence(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        Availability(**wrong)
    assert words in str(error.value)


@pytest.mark.parametrize("how", [None, Availability(over_sampling=2)])
@pytest.mark.parametrize("cohort", [0, -1, 6])
def test_an_impossible_cohort_is_refused(cohort: int, how: Availability | None) -> None:
    words = (
        f"population.cohort is {cohort} but the population has 5 clients; set it between 1 and 5"
    )
    with pytest.raises(ConfigError) as error:
        Caller(many(5), cohort, 0, how)
    assert str(error.value) == words
    with pytest.raises(ConfigError) as error:
        sample_cohort(0, 1, 5, cohort)
    assert str(error.value) == words


def test_more_reports_than_the_cohort_cannot_be_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"least is 4 but population.cohort is 3: no round could"):
        Caller(many(), 3, 0, Availability(least=4, over_sampling=2))
    assert Caller(many(), 3, 0, Availability(least=3)).call(1).clients


def test_taking_candidates_costs_what_is_taken() -> None:
    assert len(set(islice(candidates(0, 1, 10**18, 3), 1000))) == 1000
