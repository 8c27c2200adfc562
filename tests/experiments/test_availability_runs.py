"""Runs whose clients are away, drop out or are slow: what counts, what is counted, what stays."""

import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedfor
from fedfor.data import Availability, Partition, Population
from fedfor.engines import SerialEngine, Training
from fedfor.engines.engine import Job
from fedfor.engines.vector import Trainer, VectorEngine
from fedfor.errors import FolderError
from fedfor.experiments.config import RunConfig
from fedfor.experiments.folder import RunFolder
from fedfor.experiments.load import load_config
from fedfor.experiments.metrics import summarise
from fedfor.experiments.run import run_in_folder, start_run
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.together import drive_together
from fedfor.experiments.work import Evaluate, Train
from fedfor.models import linear, mlp
from fedfor.tensors import Tensors

from ..conftest import Cli, made_data, trace
from ..engines.stacks import (
    assert_same,
    assert_same_records,
    build,
    double,
    everything,
    norm_cnn,
    parse,
    ragged,
)
from .test_run import without_times

TOLD = ("called", "away", "dropped", "late", "surplus", "waited", "abandoned")
WHOLE = Training(epochs=2, batch_size=50, lr=0.05)
"""All of a client's samples in one batch: rounds are told apart by nothing but where they start."""
PATCHY = Availability(0.8, 0.2, 0.6, over_sampling=1.5, deadline=2, least=3)
"""Of ragged clients, with seed 0: some drop out, some are late, rounds 2 and 5 are abandoned."""

Worker = Callable[..., SerialEngine | VectorEngine]
ENGINES = pytest.mark.parametrize("engine", [SerialEngine, VectorEngine])


def having(*sizes: int) -> Partition:
    """Clients with so many samples, no two with the same ones."""
    split, ends = double(made_data(sum(sizes))), np.cumsum(sizes)
    return Partition(split, [np.arange(end - n, end) for n, end in zip(sizes, ends, strict=True)])


def running(
    name: str,
    how: Availability | None,
    population: Population | None = None,
    *,
    cohort: int = 4,
    make: Callable[..., nn.Module] = mlp,
    training: Training = WHOLE,
    engine: Worker = SerialEngine,
    seed: int = 0,
) -> Simulation:
    model, chosen = copy.deepcopy(build(make)), parse(name)
    worker = engine(model, chosen, training, seed)
    clients = ragged() if population is None else population
    return Simulation(
        clients, model, chosen, training, worker, cohort=cohort, seed=seed, availability=how
    )


SIX: list[dict[str, Any]] = [
    {"speed": 0.2},
    {"speed": 0.8},
    {"dropout": 1},
    {"speed": 0.4},
    {"speed": 0.32, "there": [[0, 1]], "period": 2},
    {"speed": 2.4},
]
SIZES = (2, 4, 6, 8, 4, 6)
"""5 on average, so in round 1 they report at 2, 1, never, 4, 2.5 and 0.5."""
MODEL = 8 * (64 * 3 + 3)
"""Bytes of a linear model of 8 x 8 images in float64."""


def six(folder: Path, name: str, **changed: Any) -> Simulation:
    """Three are wanted, and twice as many called: all six."""
    how = Availability(over_sampling=2, trace=trace(folder, *SIX), **{"deadline": 3, **changed})
    return running(name, how, having(*SIZES), cohort=3, make=linear)


@pytest.mark.parametrize(("weighting", "weights"), [("uniform", (1, 1, 1)), ("examples", SIZES)])
def test_the_mean_is_over_those_who_count(
    tmp_path: Path, weighting: str, weights: Sequence[int]
) -> None:
    run = six(tmp_path, f"fedavg,weighting={weighting}")
    message = run.server.message()
    models = {}
    for k in (0, 1, 5):
        job = Job(k, run.population.samples(k, 1))
        models[k] = run.engine.client_update(message, job).reply.model  # type: ignore[union-attr]
    weight = dict(zip((0, 1, 5), (weights[0], weights[1], weights[-1]), strict=True))
    record = run.round()
    told = {"called": 6, "away": 0, "dropped": 1, "late": 1, "surplus": 1, "waited": 2.0}
    assert {key: record.get(key) for key in ("clients", *TOLD)} == {
        "clients": 3,
        **told,
        "abandoned": None,
    }
    assert record["local_steps"] == 2
    for name, tensor in run.server.model.items():
        mean = sum(weight[k] * models[k][name] for k in models) / sum(weight.values())
        torch.testing.assert_close(tensor, mean, rtol=1e-12, atol=1e-12)


def test_bytes_go_down_to_all_who_are_called_and_up_from_those_who_count(tmp_path: Path) -> None:
    """In a silo, those who got the last model have it, whatever became of their reply."""
    run = six(tmp_path, "fedfor")
    keys = ("up", "down_cross_device", "down_cross_silo")
    records = [run.round() for _ in range(3)]
    assert [record["called"] for record in records] == [6, 5, 6]
    assert [[record[key] / MODEL for key in keys] for record in records] == [
        [3, 6, 6],
        [3, 10, 5],  # the model and the difference; or the difference, to all five
        [3, 12, 7],  # one of the six was not called in round 2
    ]


@ENGINES
@pytest.mark.parametrize("name", ["fedfor", "scaffold", "fedcurv+fedadam"])
def test_where_everyone_is_there_nothing_changes(name: str, engine: Worker) -> None:
    plain, section = (running(name, how, engine=engine) for how in (None, Availability()))
    for _ in range(3):
        one, other = plain.round(), section.round()
        assert one == {key: value for key, value in other.items() if key not in TOLD}
        assert {key: other[key] for key in TOLD if key in other} == {
            **dict.fromkeys(TOLD[1:5], 0),
            "called": 4,
            "waited": other["waited"],
        }
    assert same(everything(plain), everything(section))


def same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


@ENGINES
@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_who_does_not_count_leaves_no_trace(name: str, engine: Worker) -> None:
    run = running(name, PATCHY, engine=engine)
    kept_by_others = 0
    for t in range(1, 8):
        before = {k: copy.deepcopy(run.store.get(k)) for k in range(6)}
        call = run.caller.call(t)
        run.round()
        for k in range(6):
            now, then = run.store.get(k), before[k]
            if k in call.clients:
                assert now is not None
                assert now.round == t
            elif then is None:
                assert now is None
            else:
                assert now is not None
                assert now.round == then.round < t
                for extra, tensors in then.extras.items():
                    assert same(now.extras[extra], tensors)
                kept_by_others += k in call.called
    assert kept_by_others > 2


@ENGINES
def test_an_abandoned_round_keeps_all_as_it_is(engine: Worker) -> None:
    run = running("scaffold+fedavgm", PATCHY, engine=engine)
    abandoned, tested = 0, None
    for _ in range(6):
        before = {name: tensor.clone() for name, tensor in everything(run).items()}
        record = run.round()
        assert run.server.round == record["round"]
        assert same(before, everything(run)) == bool(record.get("abandoned"))
        if record.get("abandoned"):
            abandoned += 1
            assert record["clients"] == record["up"] == 0
            assert not {"train_loss", "local_steps", "cosine", "opposing"} & record.keys()
            assert record["down_cross_device"] > 0
            assert (record["accuracy"], record["loss"]) == tested
        tested = record["accuracy"], record["loss"]
    assert abandoned == 2


def gaps(folder: Path, *rounds: int) -> Availability:
    """In these rounds of four only two of six are there."""
    ends = [0, *rounds, 5]
    there = [[a, b - 1] for a, b in itertools.pairwise(ends) if a < b - 1]
    devices = [{}, {}, *[{"there": there}] * 4]
    return Availability(least=3, trace=trace(folder, *devices))


@ENGINES
@pytest.mark.parametrize("name", ["fedfor", "fedcurv", "scaffold", "feddyn+fedadam"])
@pytest.mark.parametrize("missed", [(1,), (2,), (2, 3)])
def test_an_abandoned_round_might_as_well_not_have_been(
    tmp_path: Path, name: str, missed: tuple[int, ...], engine: Worker
) -> None:
    """FedCurv's clients take their share out of sums that are older than the last round."""
    clients = having(8, 8, 8, 8, 8, 8)
    run = running(name, gaps(tmp_path, *missed), clients, cohort=6, engine=engine)
    plain = running(name, None, clients, cohort=6, engine=engine)
    records = [run.round() for _ in range(2 + len(missed))]
    assert [r["round"] for r in records if r.get("abandoned")] == list(missed)
    theirs = [plain.round() for _ in range(2)]
    assert_same(run, plain)
    counted = [r for r in records if not r.get("abandoned")]
    assert [r["opposing"] is None for r in counted] == [True, False]
    for key in ("train_loss", "cosine", "accuracy"):
        assert [r[key] for r in counted] == pytest.approx([r[key] for r in theirs], rel=1e-9)


def test_own_layers_are_tested_as_in_the_last_round_that_counted(tmp_path: Path) -> None:
    clients = having(9, 11, 8, 12, 10, 7)
    run = running("fedbn", gaps(tmp_path, 1, 3), clients, make=norm_cnn, cohort=6)
    first, second, third = (run.round() for _ in range(3))
    new = running("fedbn", None, clients, make=norm_cnn, cohort=6)
    assert (first["accuracy"], first["loss"]) == tuple(new.evaluate([]).values())[:2]
    assert second["loss"] != first["loss"]
    assert (third["accuracy"], third["loss"]) == (second["accuracy"], second["loss"])


@pytest.mark.parametrize(
    ("name", "make"),
    [("fedfor", mlp), ("fedcurv", mlp), ("scaffold+fedadam", mlp), ("scaffold+fedbn", norm_cnn)],
)
def test_engines_agree(name: str, make: Callable[..., nn.Module]) -> None:
    training = Training(epochs=2, batch_size=7, lr=0.05, lr_decay=0.9)
    ours, theirs = (
        running(name, PATCHY, make=make, training=training, engine=engine)
        for engine in (VectorEngine, SerialEngine)
    )
    records = [[run.round() for _ in range(6)] for run in (ours, theirs)]
    assert [r["round"] for r in records[0] if r.get("abandoned")] == [2, 5]
    assert_same(ours, theirs)
    assert_same_records(*records)


def test_runs_stay_in_step_when_one_has_nothing_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[int] = []
    train = Trainer.train

    def counted(self: Trainer, tasks: Sequence[Any]) -> Any:
        together.extend([len(tasks)] if tasks else [])
        return train(self, tasks)

    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = having(8, 8, 8, 8, 8, 8)
    hows = (gaps(tmp_path, 2), None)
    ours, theirs = (
        [running("scaffold", how, clients, cohort=6, engine=engine) for how in hows]
        for engine in (shared, SerialEngine)
    )

    def four(run: Simulation) -> Any:
        records = []
        for _ in range(4):
            records.append((yield from run.steps()))
        return records

    ended: dict[int, Any] = {}
    monkeypatch.setattr(Trainer, "train", counted)
    drive_together([four(run) for run in ours], ended.__setitem__)
    assert together == [2, 2, 2, 1]  # three rounds of one, and four of the other
    for place, run in enumerate(theirs):
        assert_same_records(ended[place], [run.round() for _ in range(4)])
        assert_same(ours[place], run)


def test_rounds_planned_ahead_are_those_that_come() -> None:
    """As on a GPU, while it trains; the next round may be an abandoned one."""
    run = running("scaffold", PATCHY, engine=VectorEngine)
    planned = []
    for t in range(1, 7):
        steps = run.steps()
        work = next(steps)
        if isinstance(work, Train):
            task = run.engine.task(work.message, work.jobs, work.ahead)  # type: ignore[union-attr]
            trainer = run.engine.trainer  # type: ignore[union-attr]
            for _, result in trainer.train([task]):
                work.take(result)
            trainer._plan_ahead([task])
            [jobs] = trainer._planned.jobs
            assert [job.client for job in jobs] == run.caller.call(t + 1).clients
            planned.append(len(jobs))
            work = next(steps)
        assert isinstance(work, Evaluate)
        with pytest.raises(StopIteration):
            steps.send(run.engine.evaluate(work.exams))
    assert planned.count(0) == 2
    theirs = running("scaffold", PATCHY)
    for _ in range(6):
        theirs.round()
    assert_same(run, theirs)


def configured(*assignments: str, name: str = "fedcurv") -> RunConfig:
    tables = {
        "rounds": 8,
        "algorithm": name,
        "population": {"kind": "dirichlet", "clients": 8, "cohort": 4, "alpha": 0.5},
        "model": {"name": "linear"},
        "training": {"batch_size": 8, "lr": 0.05},
        "availability": {"dropout": 0.4, "slowness": 0.5, "deadline": 1.5, "least": 3},
    }
    return load_config(tables, assignments)


def abandoned_in(records: Sequence[Record]) -> list[int]:
    return [record["round"] for record in records if record.get("abandoned")]


def test_a_resume_changes_nothing(tmp_path: Path) -> None:
    """Cut off after each of the rounds, abandoned or not."""
    whole, cut = (RunFolder(tmp_path / name) for name in ("whole", "cut"))
    for folder in (whole, cut):
        start_run(folder, configured())
    run_in_folder(whole)

    def interrupt(record: Record) -> None:
        raise KeyboardInterrupt

    for _ in range(7):
        with pytest.raises(KeyboardInterrupt):
            run_in_folder(cut, interrupt)
    records = run_in_folder(cut)
    assert 0 < len(abandoned_in(records)) < 7
    assert without_times(cut) == without_times(whole)


def test_the_section_cannot_change_under_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    start_run(folder, configured("rounds=2"))
    run_in_folder(folder)
    text = folder.config_path.read_text()
    folder.config_path.write_text(text.replace("dropout = 0.4", "dropout = 0.3"))
    with pytest.raises(FolderError, match="was changed after round 2 was done with it"):
        run_in_folder(folder)


def record(t: int, clients: int, **more: Any) -> Record:
    counts = {"called": 5, "away": t, "dropped": 1, "late": 2, "surplus": 0, "waited": 0.5 * t}
    sent = dict.fromkeys(("down_cross_device", "down_cross_silo", "state_bytes"), 0)
    kept = {"up": 0, "clients_with_state": 0, "accuracy": 0.1 * t}
    return {"round": t, "clients": clients, **counts, **sent, **kept, **more}


def test_a_summary_adds_up_who_took_part() -> None:
    """The `late` of a summary is an accuracy: that of the last tenth of the rounds."""
    steps = {"local_steps": 3.0}
    records = [record(1, 2, **steps), record(2, 0, abandoned=True), record(3, 2, **steps)]
    summary = summarise(records, 3, 1, None)
    assert summary["participation"] == {
        "called": 15,
        "counted": 4,
        "away": 6,
        "dropped": 3,
        "late": 6,
        "surplus": 0,
        "abandoned": 1,
        "waited": 1.0,
    }
    assert summary["late"] == pytest.approx(0.3)
    assert summary["local_steps"] == 3
    assert "participation" not in summarise([{"round": 1, **plain(records[0])}], 1, 1, None)


def plain(told: Record) -> Record:
    return {key: value for key, value in told.items() if key not in TOLD}


def test_a_run_says_how_many_rounds_were_abandoned(fedfor: Cli, tmp_path: Path) -> None:
    words = ["availability.dropout=1", "rounds=2", "model.name=linear"]
    options = [part for word in words for part in ("--set", word)]
    code, out, _ = fedfor("run", "prior-shift", *options, "--out", "run")
    assert code == 0
    assert "; 2 of 2 rounds were abandoned" in out
    summary = RunFolder(tmp_path / "run").summary() or {}
    assert summary["participation"]["dropped"] == summary["participation"]["called"] == 20
    code, _, told = fedfor("plot", "agreement", "run")
    assert code == 2
    assert "no run here tells how its clients' updates agree: every round of theirs was" in told


def test_simulate_takes_it_too() -> None:
    clients = having(*[6] * 8)
    how = Availability(dropout=0.5, over_sampling=2, least=4)
    history = fedfor.simulate(
        "fedavg", clients, build(linear), rounds=6, cohort=4, availability=how
    )
    assert {r["called"] for r in history.records} == {8}
    assert all(r["clients"] in (0, 4) for r in history.records)
    assert 0 < sum(r["clients"] == 0 for r in history.records) < 6
