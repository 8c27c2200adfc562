"""The reference: one client after another, as in the paper's Algorithm 1."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..algorithms.sharing import stays_local, trainable
from ..data import Samples
from ..data.labelled import Rows
from ..errors import DataError
from ..protocol import LocalRound, Message
from ..protocol.local import OWN_LAYERS, load_tensors, own_layers
from ..randomness import generator, torch_seeded
from ..tensors import Tensors
from .batches import plan_batches
from .engine import (
    Ahead,
    Exam,
    InProcess,
    Job,
    Marks,
    Result,
    Score,
    evaluation_batch,
    score,
    single_sample,
)
from .fisher import Loss, fisher_diagonal
from .training import Training


class SerialEngine(InProcess):
    """One model is held and loaded anew for each client. Any nn.Module and loss will do."""

    name: ClassVar[str] = "serial"
    steps_in_rows = False

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm,
        training: Training,
        seed: int,
        loss: Loss = nn.functional.cross_entropy,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.algorithm, self.training, self.seed, self.loss = algorithm, training, seed, loss
        self.dtype = next((p.dtype for p in model.parameters()), torch.float32)
        # Where a new client's own layers start: the initial model's, not the last client's.
        self.initial_own = own_layers(model, stays_local(model, algorithm.sharing))

    @property
    def about(self) -> dict[str, object]:
        return {}

    def train(
        self, message: Message, jobs: Iterable[Job], ahead: Ahead | None = None
    ) -> Iterator[Result]:
        for job in jobs:
            yield self.client_update(message, job)

    def client_update(self, message: Message, job: Job) -> Result:
        """ClientUpdate(W(t-1), extras) of Algorithm 1."""
        t, k = message.round, job.client
        draw = generator(self.seed, "batches", t, k)
        batches = plan_batches(
            len(job.samples), self.training.batch_size, self.training.epochs, draw
        )
        load_tensors(self.model, self.initial_own)
        optimizer = self.training.make_optimizer(trainable(self.model).values(), t)
        local = LocalRound(
            self.algorithm, self.model, optimizer, message, job.state(), steps=len(batches)
        )
        self.model.train()
        total = torch.zeros((), device=self.device)
        images = self._augmented(batches, t, k)
        with torch_seeded(self.seed, "dropout", t, k, self.device):
            for batch in batches:
                x, y = self._to_device(job.samples.batch(batch))
                x = images(x)
                optimizer.zero_grad()
                loss = self._loss(x, y, k)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()  # W <- W - eta (grad L_k + what the ClientOpt adds)
                total += loss.detach()
        fisher = self._fisher(job.samples) if self.algorithm.client.needs_fisher else None
        reply, kept = local.finish(examples=len(job.samples), fisher=fisher)
        return Result(k, reply, kept, float(total) / len(batches))

    def evaluate(self, exams: Sequence[Exam]) -> list[Score]:
        return [self.score(exam) for exam in exams]

    def score(self, exam: Exam) -> Score:
        return score(exam.samples, self.marks(exam))

    def marks(self, exam: Exam) -> Marks:
        samples, kept = exam.samples, exam.state()
        load_tensors(self.model, exam.model)
        load_tensors(self.model, kept.extras[OWN_LAYERS] if kept else self.initial_own)
        self.model.eval()
        own, right, loss = samples.own_classes(), np.zeros(samples.data.classes, np.int64), 0.0
        with torch.no_grad():
            batch = evaluation_batch(samples)
            for start in range(0, len(samples), batch):
                some = slice(start, start + batch)
                x, y = self._to_device(samples.batch(some))
                outputs = self.model(x)
                loss += float(self.loss(outputs, y)) * len(y)
                good = (outputs.argmax(dim=1) == y).cpu().numpy()
                right += np.bincount(own[some][good], minlength=len(right))
        return Marks(right, loss)

    def _loss(self, x: Tensor, y: Tensor, client: int) -> Tensor:
        try:
            return self.loss(self.model(x), y)
        except ValueError as error:
            if len(y) == 1 and "more than 1 value per channel" in str(error):
                raise DataError(single_sample(client)) from error
            raise

    def _augmented(self, batches: list[Rows], t: int, k: int) -> Callable[[Tensor], Tensor]:
        """Changes the images of one batch after another as they were drawn to be."""
        augmentation = self.training.augmentation
        if augmentation is None:
            return lambda x: x
        drawn = augmentation.draw(sum(map(len, batches)), self.seed, t, k).to(self.device)
        remaining = iter(drawn.split([len(batch) for batch in batches]))  # type: ignore[no-untyped-call]
        return lambda x: augmentation.apply(x, next(remaining))

    def _fisher(self, samples: Samples) -> Tensors:
        return fisher_diagonal(self.model, self.loss, *self._to_device(samples.all()))

    def _to_device(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = batch
        dtype = self.dtype if x.is_floating_point() else x.dtype  # token numbers stay whole
        return x.to(self.device, dtype), y.to(self.device)
