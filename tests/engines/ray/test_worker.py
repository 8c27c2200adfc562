"""A worker by itself, in this process and without a cluster."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedfor.data import Partition, Samples
from fedfor.engines.ray import worker as worker_module
from fedfor.engines.ray.orders import DATA, Slice
from fedfor.engines.ray.parcel import Parcel, pack, unpack
from fedfor.engines.ray.worker import Worker
from fedfor.errors import DataError, FolderError
from fedfor.protocol import Kept, Partial
from fedfor.protocol.states import StateFiles
from fedfor.protocol.tree import folded
from fedfor.tensors import Tensors

from ..stacks import build, ragged
from .alone import CLIENTS, SIZES, Driver

pytestmark = pytest.mark.fast


def wide(shape: Sequence[int], classes: int) -> nn.Module:
    """So large that it lies in the memory that processes share."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, classes))


@pytest.fixture
def worker() -> Worker:
    return Worker([], None)


def assert_same_model(ours: Driver, theirs: Driver) -> None:
    assert ours.server.round == theirs.server.round
    for name, tensor in theirs.server.model.items():
        assert torch.equal(ours.server.model[name], tensor), name


# Sums


@pytest.mark.parametrize("name", ["fedfor", "scaffold"])
def test_slices_folded_in_any_groups_have_the_bits_of_the_whole(worker: Worker, name: str) -> None:
    whole = Driver(name=name)
    whole.serial_round()
    leaves, draw = [[k] for k in CLIENTS], random.Random(0)
    for _ in range(8):
        borders = sorted({0, len(leaves), *draw.choices(CLIENTS, k=draw.randint(0, 7))})
        driver, parts = Driver(name=name), []
        for first, last in itertools.pairwise(borders):
            report, sums, _ = driver.train(worker, leaves[first:last], first)
            assert len(report.seconds) == last - first
            parts.append(sums)
        draw.shuffle(parts)
        while len(parts) > 1:
            count = draw.randint(1, min(4, len(parts)))
            parts = [*parts[count:], worker.fold(False, *parts[:count])]
        (one,) = unpack(worker.fold(True, *parts))
        driver.finish([one])
        assert_same_model(driver, whole)


def test_a_slice_gives_few_sums_whatever_its_length(worker: Worker) -> None:
    _, sums, _ = Driver().train(worker, [[k] for k in CLIENTS[3:11]], 3)
    nodes = unpack(sums)
    assert [(node.level, node.first) for node in nodes] == [(0, 3), (2, 4), (1, 8), (0, 10)]
    assert sum(node.value.clients for node in nodes) == 8
    assert all(
        t.device.type == "cpu" for n in nodes for ts in n.value.sums.values() for t in ts.values()
    )


def sums_of(parcel: Parcel) -> Tensors:
    (node,) = unpack(parcel)
    found: Tensors = node.value.sums["model"]
    return found


def test_adding_up_leaves_alone_what_it_was_sent(worker: Worker) -> None:
    """It lies in memory that others read, and is added up again if an adder is lost."""
    driver = Driver(model=build(wide))
    one, two = (driver.train(worker, [[k]], k)[1] for k in (0, 1))
    assert one is not None
    assert two is not None
    before = [{n: t.clone() for n, t in sums_of(parcel).items()} for parcel in (one, two)]
    worker.fold(True, one, two)
    for parcel, sums in zip((one, two), before, strict=True):
        assert all(torch.equal(t, sums[name]) for name, t in sums_of(parcel).items())
    assert unpack(one)[0].value.clients == 1


def test_a_block_is_one_leaf(worker: Worker) -> None:
    report, sums, _ = Driver().train(worker, [[0, 1, 2], [3, 4]])
    (node,) = unpack(sums)
    assert (node.level, node.index, node.value.clients) == (1, 0, 5)
    assert len(report.seconds) == 2


# What a worker holds


def test_runs_of_a_sweep_do_not_touch_each_other(worker: Worker) -> None:
    data = ragged(SIZES)
    runs = [Driver(n, name, population=data) for n, name in enumerate(("fedavg", "fedfor"), 1)]
    alone = [Driver(n, name) for n, name in enumerate(("fedavg", "fedfor"), 1)]
    for _ in range(2):
        for run, reference in zip(runs, alone, strict=True):
            run.round(worker)
            reference.serial_round()
            assert_same_model(run, reference)
            assert run.grade(worker).problem is None
    homes = list(worker._homes.values())
    assert homes[0].federation.population.split is homes[1].federation.population.split
    assert homes[0].federation.model is not homes[1].federation.model


def test_runs_of_other_data_bring_them_along(worker: Worker) -> None:
    runs = [Driver(1), Driver(2, population=ragged(SIZES[::-1], 120))]
    alone = [Driver(1), Driver(2, population=ragged(SIZES[::-1], 120))]
    for run, reference in zip([*runs, *runs], [*alone, *alone], strict=True):
        run.round(worker)
        reference.serial_round()
        assert_same_model(run, reference)


def test_of_more_runs_than_it_can_hold_those_come_again_whose_turn_was_longest_ago(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MOST_HOMES", 2)
    runs, reference = [Driver(n, "fedfor") for n in (1, 2, 3)], Driver(1, "fedfor")
    for n in (1, 2, 1, 3):
        runs[n - 1].round(worker)
    assert list(worker._homes) == [1, 3]
    home = worker._homes[1]
    for n in (2, 1):
        runs[n - 1].round(worker)
    assert list(worker._homes) == [2, 1]
    assert worker._homes[1] is not home
    for _ in range(3):
        reference.serial_round()
    assert_same_model(runs[0], reference)


def test_the_model_that_came_is_not_trained_on(worker: Worker) -> None:
    """It lies where others read it."""
    driver = Driver(model=build(wide))
    before = {name: t.clone() for name, t in driver.model.state_dict().items()}
    model, around, _ = driver.sent()
    order = Slice(1, 1, 0, [[0], [1]])
    for _ in range(2):
        worker.train(order, driver.place, driver.parcel, driver.data, model, around, None)
    params, _ = unpack(model)
    held, _ = worker._homes[driver.number].received(1, model)
    assert held["1.weight"].data_ptr() != params["1.weight"].data_ptr()  # which is free again
    for name, tensor in before.items():
        assert torch.equal(params[name], tensor)
        assert torch.equal(
            unpack(driver.parcel, {DATA: driver.split}).model.state_dict()[name], tensor
        )


def test_those_who_come_after_one_without_memory_train_fewer_together() -> None:
    worker, driver = Worker([], 16), Driver()
    driver.round(worker)
    assert worker._homes[1].federation.stacking.lanes == 16


def test_it_says_whether_it_sees_the_folder_of_states(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "seen").touch()
    assert worker.ready(str(tmp_path / "seen")).sees
    assert not worker.ready(str(tmp_path / "not seen")).sees
    assert not worker.ready(None).sees


# State of clients


def test_state_comes_and_goes_with_the_slice_or_lies_on_disk(
    worker: Worker, tmp_path: Path
) -> None:
    carried, on_disk = (Driver(n, "scaffold", states=s) for n, s in ((1, None), (2, tmp_path)))
    some, leaves = CLIENTS[:3], [[k] for k in CLIENTS[:3]]
    held: dict[int, Kept] | None = None
    for t in (1, 2):
        _, sums, states = carried.train(worker, leaves, carried=held)
        assert states is not None
        held = unpack(states)
        assert held is not None
        assert {k: kept.round for k, kept in held.items()} == dict.fromkeys(some, t)
        report, others, nothing = on_disk.train(worker, leaves, kept_in=[t - 1] * 3)
        assert nothing is None
        assert report.kept == [(k, held[k].nbytes) for k in some]
        for k in some:
            written = StateFiles(tmp_path).read(k, t)
            for extra, tensors in held[k].extras.items():
                assert all(torch.equal(written.extras[extra][n], v) for n, v in tensors.items())
        for driver, parcel in ((carried, sums), (on_disk, others)):
            nodes = [replace(n, value=n.value.copied()) for n in unpack(parcel)]
            driver.finish(folded(Partial.plus, nodes))
        assert_same_model(carried, on_disk)


def test_state_that_is_lost_is_a_sentence(worker: Worker, tmp_path: Path) -> None:
    driver = Driver(1, "scaffold", states=tmp_path)
    report, sums, _ = driver.train(worker, [[2], [5]], kept_in=[0, 4])
    assert report.problem is not None
    assert report.problem.leaf == 1
    assert str(report.problem.error).startswith("the state of client 5 in")
    assert isinstance(report.problem.error, FolderError)
    assert sums is None


# What goes wrong


@dataclass
class Stopper:
    """Calls a slice off while its second client is trained."""

    worker: Worker | None = None
    number: int = 0
    steps: int = 0


STOPPER = Stopper()


def stopping(outputs: Tensor, targets: Tensor) -> Tensor:
    STOPPER.steps += 1
    if STOPPER.steps == 2 and STOPPER.worker is not None:
        STOPPER.worker.stop(STOPPER.number)
    return nn.functional.cross_entropy(outputs, targets)


@pytest.fixture
def stopper(worker: Worker) -> Iterator[Stopper]:
    STOPPER.worker, STOPPER.steps = worker, 0
    yield STOPPER
    STOPPER.worker = None


def test_a_slice_that_is_no_longer_wanted_ends_after_the_client_that_is_trained(
    worker: Worker, stopper: Stopper
) -> None:
    stopper.number = 7
    driver = Driver(loss=stopping, name="scaffold")
    report, sums, states = driver.train(worker, [[0], [4], [6]], number=7)
    assert report.stopped
    assert sums is None
    assert states is None
    assert len(report.seconds) == 1  # the first client has two steps
    report, sums, _ = driver.train(worker, [[0], [4], [6]], number=7)  # said once, meant once
    assert not report.stopped
    assert sums is not None


def test_who_is_told_to_stop_does_other_slices_to_the_end(worker: Worker, stopper: Stopper) -> None:
    stopper.number = 7
    report, sums, _ = Driver(loss=stopping).train(worker, [[0], [4]], number=8)
    assert not report.stopped
    assert sums is not None


class Refusing(nn.Module):
    """Cannot be trained on images with a mark."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.layer, self.error = nn.Linear(64, 3).double(), error

    def forward(self, x: Tensor) -> Tensor:
        if self.training and bool((x > 1e3).any()):
            raise self.error
        return self.layer(x.flatten(1))


def marked(client: int) -> Partition:
    population = ragged((3,) * len(SIZES))
    shares = [list(range(3 * k, 3 * k + 3)) for k in CLIENTS]
    population.split.train.x[shares[client]] = 1e4
    return Partition(population.split, [torch.tensor(share).numpy() for share in shares])


def test_an_error_in_a_model_of_one_s_own_is_a_sentence_with_the_client(worker: Worker) -> None:
    error = ValueError("I do not like\nthis image")
    driver = Driver(model=Refusing(error), population=marked(4))
    report, sums, _ = driver.train(worker, [[k] for k in (2, 3, 4, 5)], 2)
    assert report.problem is not None
    assert report.problem.leaf == 4
    said = str(report.problem.error)
    assert said.startswith("training client 4 failed on ")
    assert "ValueError: I do not like (" in said
    assert "test_worker.py:" in said
    assert "\n" not in said
    assert sums is None
    assert len(report.seconds) == 2
    assert unpack(pack(report)).problem.error.args == (said,)  # it can be sent
    assert driver.train(worker, [[5]], 5)[0].problem is None  # nor is the worker any worse for it


def test_a_sentence_stays_as_it_is(worker: Worker) -> None:
    error = DataError("the image is upside down; turn it")
    report, _, _ = Driver(model=Refusing(error), population=marked(0)).train(worker, [[0]])
    assert report.problem is not None
    assert type(report.problem.error) is DataError
    assert str(report.problem.error) == str(error)


def test_memory_that_ran_out_is_told_as_such(worker: Worker) -> None:
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 TB")
    report, _, _ = Driver(model=Refusing(error), population=marked(0)).train(worker, [[0]])
    assert report.problem is not None
    assert "training client 0 takes more memory than" in str(report.problem.error)
    assert "lower training.batch_size" in str(report.problem.error)


class Unreadable(Partition):
    gone = False

    def samples(self, client: int, round: int) -> Samples:  # noqa: A002
        if self.gone and client == 3:
            raise OSError("disk is gone")
        return super().samples(client, round)


def test_an_error_in_data_of_one_s_own_is_a_sentence_with_the_client(worker: Worker) -> None:
    population = Unreadable(ragged(SIZES).split, [torch.arange(4).numpy()] * len(SIZES))
    population.gone = True
    driver = Driver(population=population)
    report, _, _ = driver.train(worker, [[1], [3]], 1)
    assert report.problem is not None
    assert report.problem.leaf == 2
    assert str(report.problem.error).startswith("training client 3 failed on ")
    assert "OSError: disk is gone" in str(report.problem.error)


def never_unpacked() -> Any:
    raise ModuleNotFoundError("No module named 'mine'")


class Elsewhere:
    """Something whose module a worker does not have."""

    def __reduce__(self) -> Any:
        return never_unpacked, ()


def test_a_run_that_cannot_be_unpacked_is_a_sentence(worker: Worker) -> None:
    driver = Driver()
    driver.parcel = pack(Elsewhere())
    report, _, _ = driver.train(worker, [[1]], 1)
    assert report.problem is not None
    assert "No module named 'mine'" in str(report.problem.error)
    graded = driver.grade(worker)
    assert graded.problem is not None
    assert "No module named 'mine'" in str(graded.problem.error)
    assert graded.marks == []


def test_parts_of_a_test_are_marked_like_the_whole(worker: Worker) -> None:
    driver = Driver()
    driver.round(worker)
    graded = driver.grade(worker)
    assert graded.problem is None
    first, second = graded.marks
    test = driver.population.tests(1)[0].samples
    model = driver.server.model
    outputs = test.all()[0].flatten(1) @ next(w for w in model.values() if w.ndim == 2).T
    outputs += next(w for w in model.values() if w.ndim == 1)
    right = int((outputs.argmax(1) == test.all()[1]).sum())
    assert int((first + second).right.sum()) == right
