"""Testing many models in one pass over the data."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ...data import Samples
from ...protocol.local import OWN_LAYERS
from ...tensors import Tensors
from ..engine import EVALUATION_BATCH, Exam, Score
from .model import StackedModel
from .runner import compiled, traced
from .trainer import Trainer

NUMBERS_AT_ONCE = 2**14 * 3 * 32 * 32
"""Samples times models times the size of a sample in one forward."""

FORWARD_SHARE = 3
"""A forward is about such a part of a training step's work."""

Grade = Callable[..., tuple[Tensor, Tensor]]


def evaluate(trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]]) -> list[Score]:
    """Score each exam, with the layers that its run began with where a client kept none."""
    groups: dict[object, list[int]] = {}
    for i, (exam, _) in enumerate(exams):
        groups.setdefault((id(exam.samples.data), exam.samples.rows.tobytes()), []).append(i)
    scores: dict[int, Score] = {}
    with trainer.model.backend(), torch.no_grad():
        for of_group in groups.values():
            samples = exams[of_group[0]][0].samples
            batch = _batch(samples)
            most = max(1, NUMBERS_AT_ONCE // (batch * samples.data.x[0].numel()))
            # Of like size, so that one program serves them all.
            models = -(-len(of_group) // -(-len(of_group) // most))
            for start in range(0, len(of_group), models):
                places = of_group[start : start + models]
                found = _same_samples(trainer, [exams[i] for i in places], batch)
                scores |= dict(zip(places, found, strict=True))
    return [scores[i] for i in range(len(exams))]


def _batch(samples: Samples) -> int:
    """As many samples as go through at a time: about equally many each time."""
    most = max(1, min(EVALUATION_BATCH, NUMBERS_AT_ONCE // samples.data.x[0].numel()))
    return -(-len(samples) // -(-len(samples) // most))


def _same_samples(
    trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]], batch: int
) -> list[Score]:
    model, device = trainer.model, trainer.device
    whole = [
        {**exam.model, **(exam.kept.extras.get(OWN_LAYERS, own) if exam.kept else own)}
        for exam, own in exams
    ]
    weights = torch.stack([model.layout.row(tensors, model.like) for tensors in whole])
    held = {n: torch.stack([t[n].to(device) for t in whole]) for n in model.buffer_names}
    samples = exams[0][0].samples
    correct = torch.zeros(len(exams), dtype=torch.int64, device=device)
    total = torch.zeros(len(exams), dtype=torch.float64, device=device)
    for start in range(0, len(samples), batch):
        rows = samples.rows[start : start + batch]
        x, _ = trainer.data.batch(samples, rows)
        labels = torch.stack([trainer.data.batch(exam.samples, rows)[1] for exam, _ in exams])
        inputs = [weights, x, labels, *held.values()]
        losses, right = _program(trainer, tuple(held), inputs, len(samples))(*inputs)
        total += losses.double() * len(rows)
        correct += right
    count = len(samples)
    figures = np.stack([correct.double().cpu().numpy(), total.cpu().numpy()], axis=1) / count
    return [Score(float(accuracy), float(loss)) for accuracy, loss in figures]


def _program(
    trainer: Trainer, held: tuple[str, ...], inputs: Sequence[Tensor], samples: int
) -> Grade:
    """What grades models on a batch: compiled where a run is long enough to earn it back."""
    models = len(inputs[0])
    grade = _grade(trainer.model, held)
    if not trainer.worth_compiling(models * samples / FORWARD_SHARE):
        return grade
    key = models, inputs[1].shape
    if key not in trainer.grades:
        trainer.grades[key] = compiled(traced(grade, inputs), inputs)
    return trainer.grades[key]


def _grade(model: StackedModel, held: tuple[str, ...]) -> Grade:
    def run(weights: Tensor, x: Tensor, labels: Tensor, *buffers: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(held, buffers, strict=True))
        outputs = model.outputs(weights, named, x, shared=True)
        losses = model.loss(outputs, labels, None)
        return losses, (outputs.argmax(dim=2) == labels).sum(dim=1)

    return run
