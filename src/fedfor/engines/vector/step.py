"""One local step of many clients: W <- W - eta (grad L_k + what the ClientOpt adds)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ...algorithms import ClientOpt, Local
from ...tensors import Tensors
from ..augment import Augmentation
from .model import StackedModel
from .noise import Given, Hashed
from .update import SgdOptions, sgd_step, with_penalty


@dataclass(frozen=True)
class Share:
    """The clients of one run in a stack: rows `start` to `stop`."""

    start: int
    stop: int
    client: ClientOpt
    sgd: SgdOptions | None
    """None: the gradients are left for a torch optimizer."""

    @property
    def keeps_more(self) -> bool:
        """Whether a step changes more than weights: a momentum, or gradients for an optimizer."""
        return self.sgd is None or bool(self.sgd.momentum)


@dataclass
class State:
    """What local training changes. The first axis of every tensor is the client."""

    weights: Tensor
    buffers: Tensors
    loss: Tensor
    """The sum of the losses of the batches so far."""
    momentum: Tensor | None = None
    gradients: Tensor | None = None

    def tensors(self) -> Tensors:
        optional = {"momentum": self.momentum, "gradients": self.gradients}
        named = {"weights": self.weights, "loss": self.loss}
        named |= {name: t for name, t in optional.items() if t is not None}
        return named | {f"buffer {name}": b for name, b in self.buffers.items()}

    def of(self, tensors: Tensors) -> "State":
        """The same with other tensors, as `tensors` names them."""
        return State(
            tensors["weights"],
            {name: tensors[f"buffer {name}"] for name in self.buffers},
            tensors["loss"],
            tensors.get("momentum"),
            tensors.get("gradients"),
        )


@dataclass
class Term:
    """What the penalty of one run's clients is made from. It does not change during a round.

    `down` is one row for all clients; what was kept, and `steps`, are a row for each.
    """

    start: Tensor
    """The shared part of the model that the round began with."""
    down: Tensors
    kept: Tensors
    lr: Tensor
    steps: Tensor
    seen_last_round: Tensor

    def tensors(self) -> Tensors:
        named = {"start": self.start, "lr": self.lr}
        return named | {f"down {name}": t for name, t in self.down.items()} | self._of_clients()

    def _of_clients(self) -> Tensors:
        named = {"steps": self.steps, "seen": self.seen_last_round}
        return named | {f"kept {name}": t for name, t in self.kept.items()}

    def of(self, tensors: Tensors) -> "Term":
        return Term(
            tensors["start"],
            {name: tensors[f"down {name}"] for name in self.down},
            {name: tensors[f"kept {name}"] for name in self.kept},
            tensors["lr"],
            tensors["steps"],
            tensors["seen"],
        )

    def only(self, clients: Tensor) -> "Term":
        """For some of the clients."""
        return self.of(self.tensors() | {n: t[clients] for n, t in self._of_clients().items()})

    def columns(self, columns: slice) -> "Term":
        """For some of the weights."""

        def some(tensors: Tensors) -> Tensors:
            return {name: t[:, columns] for name, t in tensors.items()}

        return replace(
            self, start=self.start[:, columns], down=some(self.down), kept=some(self.kept)
        )

    @property
    def extras(self) -> Tensors:
        return {**self.down, **self.kept}

    @property
    def local(self) -> Local:
        return Local(self.lr, self.steps, self.seen_last_round)


@dataclass
class Batch:
    rows: Tensor
    labels: Tensor
    counts: Tensor
    """How many samples each client has in this batch; the rest of its rows is padding."""
    images: Tensor | None = None
    """How the images are to be changed."""
    noise: list[Tensor] = field(default_factory=list)
    keys: Tensor | None = None
    """For noise that is made on the device: a number for each client, and the step."""
    step: Tensor | None = None

    def tensors(self) -> Tensors:
        optional = {"images": self.images, "keys": self.keys, "step": self.step}
        named = {"rows": self.rows, "labels": self.labels, "counts": self.counts}
        named |= {name: t for name, t in optional.items() if t is not None}
        return named | {f"noise {i}": t for i, t in enumerate(self.noise)}

    def of(self, tensors: Tensors) -> "Batch":
        noise = [tensors[f"noise {i}"] for i in range(len(self.noise))]
        return Batch(
            tensors["rows"],
            tensors["labels"],
            tensors["counts"],
            tensors.get("images"),
            noise,
            tensors.get("keys"),
            tensors.get("step"),
        )


@dataclass(frozen=True)
class LocalStep:
    """The step for one division of the stack into runs, with padding in the batch or without."""

    model: StackedModel
    shares: tuple[Share, ...]
    padded: bool
    alone: bool
    """Whether some client has a single sample in the batch."""
    augmentation: Augmentation | None = None
    whole: bool = False
    """Whether to change all weights at once. If each run changes its own rows, a compiler copies
    all rows for each of them, and with many runs such copies take most of a step."""

    def __call__(self, state: State, terms: Sequence[Term], batch: Batch, x: Tensor) -> None:
        """Change `state` in place. `x` is the whole data set."""
        weight = running = None
        if self.padded:
            places = torch.arange(batch.rows.shape[1], device=batch.rows.device)
            weight = (places < batch.counts[:, None]).to(state.weights.dtype)
            running = batch.counts > 0
        noise = (
            Given(batch.noise)
            if batch.keys is None or batch.step is None
            else Hashed(batch.keys, batch.step)
        )
        gradients, buffers, loss = self.model.gradients(
            state.weights,
            state.buffers,
            self._inputs(x, batch),
            batch.labels,
            weight,
            noise,
            1 if self.alone else 2,
        )
        if self.whole and len(self.shares) > 1 and not any(s.keeps_more for s in self.shares):
            self._update_whole(terms, state, gradients, running)
        else:
            self._update_in_place(terms, state, gradients, running)
        for name, buffer in state.buffers.items():
            buffer.copy_(_where(running, buffers[name], buffer))
        state.loss.add_(_where(running, loss, torch.zeros_like(loss)))

    def _inputs(self, x: Tensor, batch: Batch) -> Tensor:
        if self.augmentation is None or batch.images is None:
            return x[batch.rows]
        images = self.augmentation.apply(x[batch.rows.flatten()], batch.images.flatten(0, 1))
        return images.view(*batch.rows.shape, *images.shape[1:])

    def _update_in_place(
        self, terms: Sequence[Term], state: State, gradients: Tensors, running: Tensor | None
    ) -> None:
        for start, stop, names in self.model.layout.segments:
            # Once for all runs: a compiler would gather them anew for each.
            parts = [_flat(gradients[name]) for name in names]
            gradient = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            for share, term in zip(self.shares, terms, strict=True):
                self._update(share, term, state, slice(start, stop), gradient, running)

    def _update_whole(
        self, terms: Sequence[Term], state: State, gradients: Tensors, running: Tensor | None
    ) -> None:
        """New weights of all runs, laid side by side and then copied over the old ones. For SGD
        without momentum only."""
        layout, weights = self.model.layout, state.weights
        parts = [_flat(gradients[name]) for name in layout.slots]
        if layout.width > layout.used:
            parts.append(weights.new_zeros(len(weights), layout.width - layout.used))
        gradient, new = torch.cat(parts, dim=1), []
        for share, term in zip(self.shares, terms, strict=True):
            assert share.sgd is not None
            rows = slice(share.start, share.stop)
            w = weights[rows]
            changed = with_penalty(share.client, gradient[rows], w, term)
            move = sgd_step(w, changed, None, term.lr, share.sgd)
            if running is not None:
                move = torch.where(running[rows, None], move, torch.zeros_like(move))
            new.append(w - move)
        weights.copy_(torch.cat(new))

    def _update(
        self,
        share: Share,
        term: Term,
        state: State,
        columns: slice,
        gradient: Tensor,
        running: Tensor | None,
    ) -> None:
        """These columns of one run's clients."""
        rows = slice(share.start, share.stop)
        w = state.weights[rows, columns]
        gradient = with_penalty(share.client, gradient[rows], w, term.columns(columns))
        if share.sgd is None:
            assert state.gradients is not None
            state.gradients[rows, columns] = gradient
            return
        momentum = None
        if share.sgd.momentum and state.momentum is not None:
            momentum = state.momentum[rows, columns]
        move = sgd_step(w, gradient, momentum, term.lr, share.sgd)
        if running is not None:
            move = torch.where(running[rows, None], move, torch.zeros_like(move))
        w.sub_(move)


def _flat(gradient: Tensor) -> Tensor:
    """A row for each client, also of a parameter that is a single number."""
    return gradient.flatten(1) if gradient.ndim > 1 else gradient[:, None]


def _where(running: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """New for clients that still have samples, old for those that have ended."""
    if running is None:
        return new
    return torch.where(running.view(-1, *(1,) * (new.ndim - 1)), new, old)
