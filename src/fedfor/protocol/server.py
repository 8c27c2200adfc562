"""The server's part of a round, whatever engine or network the clients are behind."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, ClientOpt, Cohort
from ..algorithms.presets import as_algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError
from ..tensors import Extras, Tensors, copies
from .message import Message, Reply


class Server:
    """Holds the global model, sends it out and moves it by what comes back.

    `round` counts the rounds that are done. `population` is the number of clients that there are;
    FedDyn and SCAFFOLD scale their server state by it.
    """

    def __init__(
        self, algorithm: Algorithm | ClientOpt | str, model: nn.Module, population: int
    ) -> None:
        self.algorithm = as_algorithm(algorithm)
        self.population = population
        self.round = 0
        own = stays_local(model, self.algorithm.sharing)
        self.params = copies({n: p for n, p in trainable(model).items() if n not in own})
        self.buffers = copies({n: b for n, b in buffers(model).items() if n not in own})
        if not self.params:
            raise ConfigError("the model has no trainable parameter that is shared")
        client, server = self.algorithm.client, self.algorithm.server
        self.client_state: Extras = {
            kept: {n: torch.zeros_like(w) for n, w in self.params.items()}
            for kept in client.server_keeps
        }
        self.server_state: Extras = {
            kept: {n: torch.full_like(w, server.initial(kept)) for n, w in self.params.items()}
            for kept in server.keeps
        }

    @property
    def model(self) -> Tensors:
        """The shared part of the global model."""
        return {**self.params, **self.buffers}

    def message(self) -> Message:
        """What goes down to every client of the next round. Round 1 has no extras: all are zero."""
        client = self.algorithm.client
        extras: Extras = {}
        if self.round:
            extras = {extra: dict(self.client_state[extra]) for extra in client.down}
        return Message(
            self.round + 1, dict(self.params), dict(self.buffers), extras, client.difference
        )

    def aggregate(
        self, replies: Iterable[Reply], client_lr: float, *, checked: bool = False
    ) -> float:
        """One step of the global model. Replies are summed as they come and not held.

        Gives back how much the clients disagree: the mean length of a client's move over the
        length of their mean move. 1 is full agreement.

        They may be a generator that trains as it goes, so nothing here switches autograd off. A
        reply that cannot be one is refused, unless the caller has `checked` them all.
        """
        weighting = self.algorithm.weighting
        models, sums, total, count, lengths = _Sums(), _Sums(), 0, 0, 0.0
        message = self.message()
        for reply in replies:
            problem = None if checked else reply.problem(message, self.algorithm.client.up)
            if problem is not None:
                raise ConfigError(f"reply {count + 1} of round {message.round}: {problem}")
            weight = reply.examples if weighting == "examples" else 1
            models.add("model", reply.model, weight)
            for extra, tensors in reply.extras.items():
                sums.add(extra, tensors)
            lengths += weight * _distance(self.params, reply.model)
            total += weight
            count += 1
        if count == 0:
            raise ConfigError("no client replied, so the round cannot be aggregated")
        mean = models.over("model", self.model, total)
        together = _distance(self.params, mean)
        summed = {extra: sums.over(extra, self.params, 1) for extra in self.algorithm.client.up}
        for name in self.params:
            self._step(name, mean[name], summed, Cohort(count, self.population), client_lr)
        self.buffers = {name: mean[name] for name in self.buffers}
        self.round += 1
        return lengths / total / together if together else 1.0

    def _step(
        self, name: str, mean: Tensor, sums: Extras, cohort: Cohort, client_lr: float
    ) -> None:
        """ClientOpt's server side, then the ServerOpt, on one parameter."""
        client, server = self.algorithm.client, self.algorithm.server
        old = self.params[name]
        state = {extra: tensors[name] for extra, tensors in self.client_state.items()}
        own_sums = {extra: tensors[name] for extra, tensors in sums.items()}
        proposal, state = client.propose(old, mean, own_sums, state, cohort)
        kept = {extra: tensors[name] for extra, tensors in self.server_state.items()}
        new, kept = server.step(old, proposal, kept, client_lr)
        state = client.after(old, new, state)
        self.params[name] = new
        for extra in self.client_state:
            self.client_state[extra][name] = state[extra]
        for extra in self.server_state:
            self.server_state[extra][name] = kept[extra]

    def state(self) -> Extras:
        """All that a restarted server needs besides `round`."""
        return {
            "params": self.params,
            "buffers": self.buffers,
            **{f"client_opt.{extra}": ts for extra, ts in self.client_state.items()},
            **{f"server_opt.{extra}": ts for extra, ts in self.server_state.items()},
        }

    def load_state(self, round: int, state: Extras) -> None:  # noqa: A002
        """Go on from a saved state of the same algorithm and model."""
        for extra, tensors in self.state().items():
            for name, tensor in tensors.items():
                saved = state.get(extra, {}).get(name)
                if saved is None or saved.shape != tensor.shape:
                    raise ConfigError(
                        f"the saved state does not fit: '{extra}/{name}' is "
                        + ("missing" if saved is None else f"of shape {tuple(saved.shape)}")
                    )
                tensors[name] = saved.to(tensor.device, tensor.dtype).clone()
        self.round = round


def _distance(start: Tensors, end: Tensors) -> float:
    moves = [torch.linalg.vector_norm(end[name] - w) for name, w in start.items()]
    return float(torch.linalg.vector_norm(torch.stack(moves)))


class _Sums:
    """Running sums in float64, so that the order of clients hardly matters."""

    def __init__(self) -> None:
        self._sums: Extras = {}

    def add(self, key: str, tensors: Tensors, weight: float = 1) -> None:
        into = self._sums.setdefault(key, {})
        for name, tensor in tensors.items():
            wide = torch.float32 if tensor.device.type == "mps" else torch.float64
            if name in into:
                into[name].add_(tensor, alpha=weight)
            else:
                into[name] = tensor.to(wide) * weight

    def over(self, key: str, like: Tensors, divisor: float) -> Tensors:
        """The sums over a number, in the types of `like`; whole numbers are rounded."""
        result = {}
        for name, model_tensor in like.items():
            value = self._sums[key][name] / divisor
            if not model_tensor.is_floating_point():
                value = value.round()
            result[name] = value.to(model_tensor.device, model_tensor.dtype)
        return result
