"""Testing many models in one pass over the data."""

from collections.abc import Sequence

import numpy as np
import torch

from ...protocol.local import OWN_LAYERS
from ...tensors import Tensors
from ..engine import EVALUATION_BATCH, Exam, Score
from .trainer import Trainer

SAMPLES_AT_ONCE = 2**14
"""Samples times models in one forward."""


def evaluate(trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]]) -> list[Score]:
    """Score each exam, with the layers that its run began with where a client kept none."""
    groups: dict[object, list[int]] = {}
    for i, (exam, _) in enumerate(exams):
        groups.setdefault((id(exam.samples.data), exam.samples.rows.tobytes()), []).append(i)
    scores: dict[int, Score] = {}
    with trainer.model.backend(), torch.no_grad():
        for of_group in groups.values():
            samples = min(EVALUATION_BATCH, len(exams[of_group[0]][0].samples))
            models = max(1, SAMPLES_AT_ONCE // samples)
            for start in range(0, len(of_group), models):
                places = of_group[start : start + models]
                found = _same_samples(trainer, [exams[i] for i in places])
                scores |= dict(zip(places, found, strict=True))
    return [scores[i] for i in range(len(exams))]


def _same_samples(trainer: Trainer, exams: Sequence[tuple[Exam, Tensors]]) -> list[Score]:
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
    for start in range(0, len(samples), EVALUATION_BATCH):
        rows = samples.rows[start : start + EVALUATION_BATCH]
        x, _ = trainer.data.batch(samples, rows)
        labels = torch.stack([trainer.data.batch(exam.samples, rows)[1] for exam, _ in exams])
        outputs = model.outputs(weights, held, x, shared=True)
        losses = model.loss(outputs, labels, None)
        total += losses.double() * len(rows)
        correct += (outputs.argmax(dim=2) == labels).sum(dim=1)
    count = len(samples)
    figures = np.stack([correct.double().cpu().numpy(), total.cpu().numpy()], axis=1) / count
    return [Score(float(accuracy), float(loss)) for accuracy, loss in figures]
