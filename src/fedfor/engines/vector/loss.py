"""The loss of many clients at once."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from ...errors import ConfigError
from ..fisher import Loss


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is wrong with an operation that vmap does one by one; it is only slow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


class StackedLoss:
    """The mean loss of each client, over its samples alone."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.mean_of_samples = loss is F.cross_entropy

    def learn(self, outputs: Tensor, y: Tensor) -> None:
        """Whether the loss of a batch is the mean of its samples' losses.

        Asked of outputs drawn at random, since those of a new model can be all alike, near to zero
        and far from it, and of all classes, since a loss may treat some unlike others.
        """
        if self.mean_of_samples:
            return
        classes = outputs.ndim == 2 and y.ndim == 1 and not y.is_floating_point()
        if classes:
            y = torch.arange(2 * outputs.shape[1], device=y.device) % outputs.shape[1]
        draw = torch.Generator().manual_seed(0)
        drawn = torch.randn(len(y), *outputs.shape[1:], generator=draw).to(outputs)
        tried = [scale * drawn for scale in (0.01, 1.0, 30.0)]
        if classes:  # and outputs that are sure of what is right
            tried.append(drawn + 10 * F.one_hot(y, outputs.shape[1]).to(outputs))
        try:
            self.mean_of_samples = all(self._is_mean(o, y) for o in tried)
        except (RuntimeError, ValueError):  # it may want probabilities
            self.mean_of_samples = all(self._is_mean(o.sigmoid(), y) for o in tried[:2])

    def _is_mean(self, outputs: Tensor, y: Tensor) -> bool:
        each = [self.loss(o[None], t[None]) for o, t in zip(outputs, y, strict=True)]
        together = self.loss(outputs, y)
        return bool(torch.isclose(torch.stack(each).mean(), together, rtol=1e-5, atol=0))

    def __call__(self, outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            if self.loss is F.cross_entropy and outputs.ndim == 3:
                return self._cross_entropy(outputs, y).mean(1)
            with quiet():
                each: Tensor = vmap(self.loss)(outputs, y)
            return each
        if not self.mean_of_samples:
            raise ConfigError(
                "the loss of a batch is not the mean over its samples, so clients with different "
                "numbers of them cannot be trained together; use engine = 'serial'"
            )
        if self.loss is F.cross_entropy and outputs.ndim == 3:
            losses = self._cross_entropy(outputs, y)
        else:
            with quiet():
                losses = vmap(vmap(lambda o, t: self.loss(o[None], t[None])))(outputs, y)
        losses = torch.where(weight > 0, losses, torch.zeros_like(losses))
        return losses.sum(1) / weight.sum(1).clamp(min=1)

    @staticmethod
    def _cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none")
        return losses.view(y.shape)
