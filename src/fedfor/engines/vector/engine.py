from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...algorithms import Algorithm
from ...algorithms.sharing import stays_local
from ...errors import ConfigError
from ...protocol import Message
from ...protocol.local import own_layers
from ..engine import Ahead, Exam, InProcess, Job, Marks, Score, StackedResult
from ..fisher import Loss
from ..stacking import DEFAULT, Stacking
from ..training import Training
from .elementwise import require_elementwise
from .evaluation import evaluate, marks
from .trainer import Task, Trainer
from .update import SgdOptions, make_optimizer


class VectorEngine(InProcess):
    """Trains the clients of a cohort together, as one stack of models.

    Several runs of the same model may share a `trainer`, which then trains all their clients
    together.
    """

    name: ClassVar[str] = "vector"
    steps_in_rows = True

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm,
        training: Training,
        seed: int,
        loss: Loss = nn.functional.cross_entropy,
        device: torch.device | str = "cpu",
        *,
        stacking: Stacking = DEFAULT,
        trainer: Trainer | None = None,
    ) -> None:
        model = model.to(device)
        if trainer is None or not trainer.fits(model, loss):
            trainer = Trainer(model, loss, torch.device(device), stacking)
        self.trainer = trainer
        self.algorithm, self.training, self.seed = algorithm, training, seed
        self.initial_own = own_layers(model, stays_local(model, algorithm.sharing))

    @property
    def about(self) -> dict[str, object]:
        return self.trainer.about

    def check(self, x: Tensor, y: Tensor) -> None:
        """Say now what stands in the way of training this model, with this method, together."""
        self.trainer.check(x, y)
        require_elementwise(self.algorithm.client)
        sgd, unused = SgdOptions.of(self.training), self.trainer.model.unused
        if sgd is None:
            make_optimizer(self.training, torch.zeros(1, 1), 1)
        if unused and (sgd is None or sgd.weight_decay):
            raise ConfigError(
                f"the vector engine would shrink parameter '{unused[0]}', which takes no part in "
                "the model's output; freeze it with requires_grad_(False), or use engine = 'serial'"
            )

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[StackedResult]:
        for _, result in self.trainer.train([self.task(message, jobs, ahead)]):
            yield result

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]:
        return evaluate(self.trainer, [(exam, self.initial_own) for exam in exams])

    def marks(self, exam: Exam) -> Marks:
        return marks(self.trainer, [(exam, self.initial_own)])[0]

    def task(self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None) -> Task:
        """What this run wants trained, for a trainer that trains several runs together."""
        return Task(
            self.algorithm,
            self.training,
            self.seed,
            self.initial_own,
            message,
            list(jobs),
            ahead,
        )
