"""A client's part of one round, in whatever loop it is trained."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..algorithms import Algorithm, ClientOpt, Local, Outcome
from ..algorithms.presets import as_algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError
from ..tensors import Extras, Tensors, copies, extras_nbytes
from .message import Message, Reply

OWN_LAYERS = "own_layers"


@dataclass(frozen=True)
class Kept:
    """What a client keeps from the round it last took part in."""

    round: int
    extras: Extras

    @property
    def nbytes(self) -> int:
        return extras_nbytes(self.extras)


class LocalRound:
    """Puts a ClientOpt on an optimizer for one round.

    Creating it loads the server's message into the model and hooks the optimizer's `step`;
    `finish` takes the hook off and gives the reply, and what the client keeps.

        local = LocalRound("fedfor", model, optimizer, message, steps=len(loader))
        ...  # any training loop
        reply, kept = local.finish(examples=len(dataset))

    Without a message, which only methods that send nothing beside the model can do, the round
    starts where the model is. `steps`, the number of optimizer steps to come, is needed by
    FedFOR's `step` strength only.
    """

    def __init__(
        self,
        algorithm: Algorithm | ClientOpt | str,
        model: nn.Module,
        optimizer: Optimizer,
        message: Message | None = None,
        kept: Kept | None = None,
        *,
        steps: int | None = None,
    ) -> None:
        algorithm = as_algorithm(algorithm)
        self.client_opt = algorithm.client
        _refuse(self.client_opt, optimizer, message, steps)
        self.planned_steps = steps
        self.model = model
        self.own = stays_local(model, algorithm.sharing)
        self.round = message.round if message else 1
        self.steps_taken = 0
        _load(model, message, kept)
        self._prepare(optimizer, message, kept, steps or 1)
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def _prepare(
        self, optimizer: Optimizer, message: Message | None, kept: Kept | None, steps: int
    ) -> None:
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        extras = {**(message.extras if message else {}), **(kept.extras if kept else {})}
        seen = float(bool(message and kept and kept.round == message.moved_in))
        self._terms: dict[str, _Term] = {}
        for name, p in trainable(self.model).items():
            if name in self.own:
                continue
            start = message.params[name].to(p.device) if message else p.detach().clone()
            x = {}
            for extra in self.client_opt.down + self.client_opt.keeps:
                found = extras.get(extra, {}).get(name)
                x[extra] = torch.zeros_like(start) if found is None else found.to(p.device)
            if id(p) not in groups:
                raise ConfigError(
                    f"parameter '{name}' is not in the optimizer; give it all trainable "
                    "parameters, or freeze this one with requires_grad_(False)"
                )
            group = groups[id(p)]
            self._terms[name] = _Term(p, start, x, Local(float(group["lr"]), steps, seen), group)

    def _before_step(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if any(callable(a) for a in (*args, *kwargs.values())):
            raise ConfigError(NO_CLOSURES)
        if getattr(optimizer, "grad_scale", None) is not None:
            raise ConfigError(
                "a fused optimizer unscales gradients inside step(), after the ClientOpt has added "
                "to them: call scaler.unscale_(optimizer) first, or use fused=False"
            )
        self.steps_taken += 1
        for term in self._terms.values():
            term.follow_rate()
        self.add_to_gradients()

    @torch.no_grad()
    def add_to_gradients(self) -> None:
        """Add the ClientOpt's gradient to each parameter's own, at the present weights."""
        for term in self._terms.values():
            added = self.client_opt.added_gradient(term.p, term.start, term.x, term.local)
            if added is None:
                continue
            if added.shape != term.p.shape:
                raise ConfigError(
                    f"{self.client_opt.name}: added_gradient gave shape {tuple(added.shape)} for a "
                    f"parameter of shape {tuple(term.p.shape)}"
                )
            if term.p.grad is None:  # the penalty's gradient exists where the loss has none
                term.p.grad = added.clone()
            else:
                term.p.grad.add_(added)

    @property
    def mean_lr(self) -> float:
        """The learning rate of the steps taken, over steps and parameters."""
        rates = [term.rates / max(1, self.steps_taken) for term in self._terms.values()]
        return sum(rates) / len(rates)

    @torch.no_grad()
    def finish(self, examples: int, fisher: Tensors | None = None) -> tuple[Reply, Kept | None]:
        """The reply, and what the client must bring to its next round (None for nothing)."""
        self._hook.remove()
        if self.steps_taken == 0:
            raise ConfigError("the local round took no optimizer step, so there is nothing to send")
        if self.client_opt.needs_steps and self.planned_steps != self.steps_taken:
            warnings.warn(
                f"{self.client_opt.name} was told of {self.planned_steps} local steps and saw "
                f"{self.steps_taken}; its strength depends on them",
                stacklevel=2,
            )
        if self.client_opt.needs_fisher and fisher is None:
            raise ConfigError(
                f"{self.client_opt.name} needs the Fisher diagonal: "
                "pass fisher=fedfor.fisher_diagonal(model, loss, x, y)"
            )
        up: Extras = {extra: {} for extra in self.client_opt.up}
        keep: Extras = {extra: {} for extra in self.client_opt.keeps}
        upload: Tensors = {}
        for name, term in self._terms.items():
            x = {**term.x, "fisher": fisher[name]} if fisher is not None else term.x
            mean_rate = term.rates / self.steps_taken
            local = replace(term.local, lr=mean_rate, steps=self.steps_taken)
            outcome = self.client_opt.finish(term.p.detach(), term.start, x, local)
            upload[name] = outcome.upload.clone()
            require_declared(self.client_opt, outcome)
            for declared, given in ((up, outcome.up), (keep, outcome.kept)):
                for extra, tensor in given.items():
                    declared[extra][name] = tensor
        shared = {n: b for n, b in buffers(self.model).items() if n not in self.own}
        if self.own:
            keep[OWN_LAYERS] = own_layers(self.model, self.own)
        reply = Reply(upload | copies(shared), up, examples, self.steps_taken)
        return reply, Kept(self.round, keep) if keep else None


def require_declared(client: ClientOpt, outcome: Outcome) -> None:
    """Refuse extras that nobody would send or keep."""
    for declared, given in ((client.up, outcome.up), (client.keeps, outcome.kept)):
        for extra in given:
            if extra not in declared:
                raise ConfigError(
                    f"{client.name}: finish gave '{extra}', which is declared neither in `up` nor "
                    "in `keeps`"
                )


NO_CLOSURES = (
    "optimizers that are given a closure (LBFGS) compute gradients inside step(), where nothing "
    "can be added to them; use another optimizer"
)


def _refuse(
    client: ClientOpt, optimizer: Optimizer, message: Message | None, steps: int | None
) -> None:
    """What would go wrong without a word."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ConfigError(NO_CLOSURES)
    if (client.needs_steps and steps is None) or (steps is not None and steps < 1):
        raise ConfigError(
            f"{client.name} must know how many local steps there will be, 1 or more: pass "
            f"steps=, for instance epochs * len(loader) (got {steps})"
        )
    missing = [e for e in client.down if message is None or e not in message.extras]
    if missing and (message is None or message.round > 1):
        raise ConfigError(
            f"{client.name} needs what its server sends beside the model ({', '.join(missing)}): "
            f"pass the message of a Server('{client.name}', ...)"
        )


@dataclass
class _Term:
    """One parameter and all that its added gradient is made from."""

    p: nn.Parameter | Tensor
    start: Tensor
    x: Tensors
    local: Local
    group: dict[str, Any]
    rates: float = 0.0
    """The sum of the learning rates of the steps taken: a scheduler may change them."""

    def follow_rate(self) -> None:
        rate = float(self.group["lr"])
        self.rates += rate
        if rate != self.local.lr:
            self.local = replace(self.local, lr=rate)


def own_layers(model: nn.Module, own: frozenset[str]) -> Tensors:
    """Copies of the parameters and buffers that stay on the client."""
    everything = {**dict(model.named_parameters()), **buffers(model)}
    return copies({name: t for name, t in everything.items() if name in own})


@torch.no_grad()
def load_tensors(model: nn.Module, tensors: Tensors) -> None:
    """Copy tensors into the model's parameters and buffers of the same names, in place."""
    held = {**dict(model.named_parameters()), **buffers(model)}
    for name, tensor in tensors.items():
        if name not in held:
            raise ConfigError(f"tensor '{name}' came for a model that has no such tensor")
        if held[name].shape != tensor.shape:
            shapes = f"{tuple(tensor.shape)}, the model's is {tuple(held[name].shape)}"
            raise ConfigError(f"tensor '{name}' came with shape {shapes}")
        held[name].copy_(tensor)


def _load(model: nn.Module, message: Message | None, kept: Kept | None) -> None:
    if message is not None:
        load_tensors(model, message.model)
    if kept is not None:
        load_tensors(model, kept.extras.get(OWN_LAYERS, {}))
