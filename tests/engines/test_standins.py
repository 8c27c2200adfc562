"""A run that leaves a stack gets a stand-in, and the others do not notice."""

import functools
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from fedfor.algorithms import algorithm
from fedfor.data import LongTail
from fedfor.engines import Exam, Job, Training
from fedfor.engines.stacking import Stacking
from fedfor.engines.vector import Trainer, VectorEngine, compiling
from fedfor.engines.vector.compiling import Compiler
from fedfor.engines.vector.evaluation import evaluate
from fedfor.engines.vector.standins import StandIns
from fedfor.engines.vector.trainer import Task
from fedfor.experiments.together import drive_together
from fedfor.models import build_model
from fedfor.protocol import Server

from ..conftest import made_data
from .stacks import TRAINING, build, norm_cnn, ragged, simulation

pytestmark = pytest.mark.fast

NAMES = ("fedavg", "fedfor,alpha=2", "fedcurv", "fedprox", "scaffold")


def tasks() -> tuple[Trainer, list[Task]]:
    population = LongTail(made_data(400), 100, seed=0, share=0.5, ratio=0.5)
    training, trainer, found = Training(batch_size=16), None, []
    for place, label in enumerate(NAMES):
        name, *settings = label.split(",")
        chosen = algorithm(name, **{k: float(v) for k, v in (s.split("=") for s in settings)})
        torch.manual_seed(place)
        model = build_model("mlp", (1, 8, 8), 3).double()
        engine = VectorEngine(model, chosen, training, seed=place, trainer=trainer)
        trainer = engine.trainer
        jobs = [Job(k, population.samples(k, 1)) for k in (place, place + 7)]
        found.append(
            engine.task(Server(chosen, model, 100).message(), jobs, lambda jobs=jobs: jobs)
        )
    assert trainer is not None
    return trainer, found


def models(trainer: Trainer, chosen: list[Task]) -> dict[int, list[torch.Tensor]]:
    found: dict[int, list[torch.Tensor]] = {}
    for place, result in trainer.train(chosen):
        found.setdefault(place, []).extend(result.reply.model.values())
    return found


def test_the_others_get_what_they_would_without_it() -> None:
    trainer, all_tasks = tasks()
    alone, _ = tasks()
    models(trainer, all_tasks)  # the first round, which decides whether to compile
    assert trainer.together == 10
    trainer.compiled = True
    left = [all_tasks[i] for i in (0, 1, 3, 4)]
    with_stand_in, without = models(trainer, left), models(alone, left)
    assert with_stand_in.keys() == without.keys() == {0, 1, 2, 3}
    for place, tensors in without.items():
        for a, b in zip(with_stand_in[place], tensors, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    assert [task.stand_in for task in trainer._stand_ins.last] == [False] * 2 + [True] + [False] * 2


def test_whole_runs_that_are_tested_every_round_keep_the_shape_of_their_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two rounds all are tested and nobody trains, which is not to leave the stack."""
    monkeypatch.setattr(Compiler, "worth", lambda self, images: True)
    monkeypatch.setattr(compiling, "compiled", lambda run, inputs: run)
    trainer = Trainer(build(norm_cnn), cross_entropy, torch.device("cpu"), Stacking())
    shared = functools.partial(VectorEngine, trainer=trainer)
    names, clients = ("fedavg", "fedfor", "scaffold", "fedcurv", "fedfor+fedbn"), ragged((14,) * 6)
    runs = [simulation(shared, build(norm_cnn), name, TRAINING, clients) for name in names]
    for present in (runs, runs[:2] + runs[3:], runs[:2] + runs[3:]):
        drive_together([run.steps() for run in present], lambda i, ended: None)
    assert [run.server.round for run in runs] == [3, 3, 1, 3, 3]
    assert len(trainer._arenas) == 1


def test_a_round_that_was_planned_ahead_is_not_forgotten_while_nobody_trains() -> None:
    trainer, all_tasks = tasks()
    models(trainer, all_tasks)
    trainer._plan_ahead(all_tasks)
    assert models(trainer, []) == {}
    assert trainer._planned_for(all_tasks) is not None


def test_the_stack_keeps_its_division() -> None:
    _, all_tasks = tasks()
    stand_ins = StandIns()
    assert stand_ins.added(all_tasks) == all_tasks
    filled = stand_ins.added(all_tasks[:2] + all_tasks[3:])
    methods = [task.algorithm.client for task in filled]
    assert methods == [task.algorithm.client for task in all_tasks]
    again = stand_ins.added(all_tasks[:2] + all_tasks[3:])
    assert [t.stand_in for t in again] == [t.stand_in for t in filled]


@pytest.mark.parametrize("left", [[0], [0, 1, 2], [4, 3, 2, 1, 0]])
def test_no_stand_ins_for_too_many_or_for_other_runs(left: list[int]) -> None:
    _, all_tasks = tasks()
    stand_ins = StandIns()
    stand_ins.added(all_tasks)
    chosen = [all_tasks[i] for i in left]
    assert stand_ins.added(chosen) == chosen
    assert not any(task.stand_in for task in stand_ins.added(chosen))


def test_runs_with_other_settings_are_a_new_stack() -> None:
    _, all_tasks = tasks()
    stand_ins = StandIns()
    stand_ins.added(all_tasks)
    other = [replace(task, training=Training(batch_size=8)) for task in all_tasks[1:]]
    assert stand_ins.added(other) == other


def test_models_are_tested_alike_in_a_program_with_more_places() -> None:
    """Where fewer models are left than a program was compiled for, the last fills its places."""
    trainer, all_tasks = tasks()
    split = made_data(400)
    exams = [
        (Exam(task.message.model, split.test.all_rows()), task.initial_own) for task in all_tasks
    ]
    expected = evaluate(trainer, exams)
    x = split.test.x
    kind = "grade", len(x), x.shape[1:]
    trainer.compiler._compiled[kind, 5] = print  # never called: on a CPU nothing is compiled
    assert trainer.compiler.room(kind, 4) == 5
    assert trainer.compiler.room(kind, 3) == 3  # too many to fill
    for some in (exams[:4], exams[1:], exams[:1]):
        found = evaluate(trainer, some)
        assert [f.accuracy for f in found] == [
            expected[next(i for i, e in enumerate(exams) if e is exam)].accuracy for exam in some
        ]
