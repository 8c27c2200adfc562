"""Testing many models in one pass over the data."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...protocol.local import OWN_LAYERS
from ...tensors import Tensors
from ..engine import Exam, Marks, Score, evaluation_batch, evenly, score
from .compiling import Flat
from .model import StackedModel
from .trainer import Trainer

NUMBERS_AT_ONCE = {"cpu": 2**25, "cuda": 2**28}
"""Models times the numbers in the samples of one forward."""

FORWARD_SHARE = 3
"""A forward is about such a part of a training step's work."""


def evaluate(trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]]) -> list[Score]:
    """Score each exam, with the layers that its run began with where a client kept none."""
    found = zip(exams, marks(trainer, exams), strict=True)
    return [score(exam.samples, marks) for (exam, _), marks in found]


def marks(trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]]) -> list[Marks]:
    groups: dict[object, list[int]] = {}
    for i, (exam, _) in enumerate(exams):
        groups.setdefault((id(exam.samples.data), exam.samples.rows.tobytes()), []).append(i)
    given: dict[int, Marks] = {}
    with trainer.model.backend(), torch.no_grad():
        for of_group in groups.values():
            samples = exams[of_group[0]][0].samples
            batch = evaluation_batch(samples)
            numbers = NUMBERS_AT_ONCE.get(trainer.device.type, NUMBERS_AT_ONCE["cpu"])
            most = numbers // (batch * max(1, samples.data.x[0].numel()))
            models = evenly(len(of_group), most)  # so that one program serves them all
            for start in range(0, len(of_group), models):
                places = of_group[start : start + models]
                found = _same_samples(trainer, [exams[i] for i in places], batch)
                given |= dict(zip(places, found, strict=True))
    return [given[i] for i in range(len(exams))]


def _same_samples(
    trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]], batch: int
) -> list[Marks]:
    model, device, asked = trainer.model, trainer.device, len(exams)
    whole = [
        {**exam.model, **(kept.extras.get(OWN_LAYERS, own) if (kept := exam.state()) else own)}
        for exam, own in exams
    ]
    samples, grade = exams[0][0].samples, _grade(model, tuple(model.buffer_names))
    kind = "grade", batch, samples.data.x.shape[1:]
    places = trainer.compiler.room(kind, len(exams))
    exams = [*exams, *[exams[-1]] * (places - asked)]
    whole += [whole[-1]] * (places - asked)
    weights = torch.stack([model.layout.row(tensors, model.like) for tensors in whole])
    held = {n: torch.stack([t[n].to(device) for t in whole]) for n in model.buffer_names}
    classes = samples.data.classes
    correct = torch.zeros(places * classes, dtype=torch.int64, device=device)
    first = torch.arange(0, len(correct), classes, device=device)[:, None]  # of each model's
    total = torch.zeros(places, dtype=torch.float64, device=device)
    images = places * len(samples) / FORWARD_SHARE
    for start in range(0, len(samples), batch):
        rows = samples.rows[start : start + batch]
        x, y = trainer.data.batch(replace(samples, relabel=None), rows)
        inputs = [weights, x, _labels(y, exams), *held.values()]
        program = grade
        if len(rows) == batch:  # not what is left at the end
            program = trainer.compiler.best(kind, places, grade, inputs, images)
        losses, right = program(*inputs)
        total += losses.double() * len(rows)
        correct.index_add_(0, (first + y).flatten(), right.flatten().long())
    by_class = correct.view(places, classes)[:asked].cpu().numpy()
    return [Marks(*figures) for figures in zip(by_class, total[:asked].tolist(), strict=True)]


def _labels(y: Tensor, exams: Sequence[tuple[Exam, Tensors]]) -> Tensor:
    """What each model is to answer: concepts may have shifted in one run and not in another."""
    relabels = [exam.samples.relabel for exam, _ in exams]
    made = {id(r): y if r is None else r.to(y.device)[y] for r in relabels}
    return torch.stack([made[id(r)] for r in relabels])


def _grade(model: StackedModel, held: tuple[str, ...]) -> Flat:
    def run(weights: Tensor, x: Tensor, labels: Tensor, *buffers: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(held, buffers, strict=True))
        outputs = model.outputs(weights, named, x, shared=True)
        losses = model.loss(outputs, labels, None)
        return losses, outputs.argmax(dim=2) == labels

    return run
