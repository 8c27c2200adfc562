from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..errors import ConfigError, nearest, require_number, require_whole
from .augment import Augmentation

MakeOptimizer = Callable[[Iterable[Tensor], float], Optimizer]

UNFIT = ("Optimizer", "LBFGS", "SparseAdam")  # the last two cannot take dense added gradients

OPTIMIZERS: dict[str, type[Optimizer]] = {
    name.lower(): cls
    for name, cls in vars(torch.optim).items()
    if isinstance(cls, type) and issubclass(cls, Optimizer) and name not in UNFIT
}


@dataclass(frozen=True)
class Training:
    """How a client trains. A fresh optimizer each round keeps clients stateless."""

    epochs: int = 1
    batch_size: int = 32
    lr: float = 0.01
    lr_decay: float = 1.0
    """The rate of round t is lr * lr_decay**(t-1)."""
    optimizer: str | MakeOptimizer = "sgd"
    """The name of a class in torch.optim, or a function of (parameters, lr)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of that class, such as momentum."""
    augment: str | Sequence[str] = ()
    """Changes to training images: flip, crop=4 (pixels), rotate=30 (degrees)."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            require_whole("training", name, getattr(self, name))
        _ = self.augmentation  # refuses words it does not know
        require_number("training", "lr", self.lr, above=0)
        require_number("training", "lr_decay", self.lr_decay, above=0)
        if isinstance(self.optimizer, str) and self.optimizer.lower() not in OPTIMIZERS:
            hint = nearest(self.optimizer, OPTIMIZERS)
            raise ConfigError(f"training.optimizer '{self.optimizer}' is not known; {hint}")
        if isinstance(self.optimizer, str):
            self.make_optimizer(
                [torch.zeros(2, 2, requires_grad=True)], 1
            )  # refuse bad options now

    @cached_property
    def augmentation(self) -> Augmentation | None:
        return Augmentation.parse(self.augment)

    def lr_in(self, round: int) -> float:  # noqa: A002
        return self.lr * self.lr_decay ** (round - 1)

    def make_optimizer(self, parameters: Iterable[Tensor], round: int) -> Optimizer:  # noqa: A002
        if not isinstance(self.optimizer, str):
            return self.optimizer(parameters, self.lr_in(round))
        make: Any = OPTIMIZERS[self.optimizer.lower()]
        try:
            return make(parameters, lr=self.lr_in(round), **self.options)  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"training: {self.optimizer} with options {dict(self.options)}: {error}"
            ) from error
