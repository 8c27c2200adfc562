"""The server's part of a round, whatever engine or network the clients are behind."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, ClientOpt, Cohort
from ..algorithms.presets import as_algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError
from ..tensors import Extras, Tensors, copies, wide
from .message import Message, Reply, StackedReply


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
        self,
        replies: Iterable[Reply | StackedReply],
        client_lr: float,
        *,
        checked: bool = False,
    ) -> float:
        """One step of the global model. Replies are summed as they come and not held.

        Gives back how much the clients disagree: the mean length of a client's move over the
        length of their mean move. 1 is full agreement.

        They may be a generator that trains as it goes, so nothing here switches autograd off. A
        reply that cannot be one is refused, unless the caller has `checked` them all.
        """
        aggregation = self.begin()
        for reply in replies:
            aggregation.add(reply, checked=checked)
        return self.finish(aggregation, client_lr)

    def begin(self) -> "Aggregation":
        """For callers that get the replies one by one: `add` each, then `finish` the round."""
        return Aggregation(self.algorithm, self.message())

    def finish(self, replies: "Aggregation", client_lr: float) -> float:
        """The step itself, as `aggregate` does it."""
        mean, sums = replies.mean(), replies.sums()
        disagreement = replies.disagreement(mean)
        for name in self.params:
            self._step(name, mean[name], sums, Cohort(replies.count, self.population), client_lr)
        self.buffers = {name: mean[name] for name in self.buffers}
        self.round += 1
        return disagreement

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


class Aggregation:
    """The replies of a round, summed as they come and not held."""

    def __init__(self, algorithm: Algorithm, message: Message) -> None:
        self.algorithm, self.message = algorithm, message
        self.count = 0
        self._total = 0
        self._sums = _Sums()
        self._lengths: Tensor | float = 0.0

    def add(self, reply: Reply | StackedReply, *, checked: bool = False) -> Tensor:
        """Count a reply in. One that cannot be one is refused, unless the caller has `checked`.

        Gives back how far each client has moved: not finite where its parameters are not.
        """
        if isinstance(reply, Reply):
            reply = reply.stacked()
        problem = None if checked else reply.first_problem(self.message, self.algorithm.client.up)
        if problem is not None:
            place, why = problem
            raise ConfigError(
                f"reply {self.count + place + 1} of round {self.message.round}: {why}"
            )
        by_examples = self.algorithm.weighting == "examples"
        weights = list(reply.examples) if by_examples else [1] * len(reply)
        self._sums.add("model", reply.model, weights)
        for extra, tensors in reply.extras.items():
            self._sums.add(extra, tensors, [1] * len(reply))
        lengths = _distances(self.message.params, reply.model)
        counted = lengths * torch.tensor(weights).to(lengths) if by_examples else lengths
        self._lengths += counted.sum()
        self._total += sum(weights)
        self.count += len(reply)
        return lengths

    def mean(self) -> Tensors:
        if self.count == 0:
            raise ConfigError("no client replied, so the round cannot be aggregated")
        return self._sums.over("model", self.message.model, self._total)

    def sums(self) -> Extras:
        params = self.message.params
        return {extra: self._sums.over(extra, params, 1) for extra in self.algorithm.client.up}

    def disagreement(self, mean: Tensors) -> float:
        """The mean length of a client's move over the length of their mean move."""
        params = self.message.params
        together = float(_distances(params, {n: mean[n][None] for n in params})[0])
        return float(self._lengths) / self._total / together if together else 1.0


def _distances(start: Tensors, ends: Tensors) -> Tensor:
    """How far each client of a stack has moved."""
    moves = [
        torch.linalg.vector_norm((ends[name] - w).flatten(1), dim=1)
        if w.ndim
        else (ends[name] - w).abs()
        for name, w in start.items()
    ]
    lengths: Tensor = torch.linalg.vector_norm(torch.stack(moves).to(wide(moves[0])), dim=0)
    return lengths


AT_A_TIME = 64  # clients whose tensors are widened to float64 at once


class _Sums:
    """Running sums in float64, so that the order of clients hardly matters."""

    def __init__(self) -> None:
        self._sums: Extras = {}

    def add(self, key: str, tensors: Tensors, weights: Sequence[float]) -> None:
        into = self._sums.setdefault(key, {})
        for name, stacked in tensors.items():
            total = _weighted_sum(stacked, weights)
            into[name] = into[name].add_(total) if name in into else total

    def over(self, key: str, like: Tensors, divisor: float) -> Tensors:
        """The sums over a number, in the types of `like`; whole numbers are rounded."""
        result = {}
        for name, model_tensor in like.items():
            value = self._sums[key][name] / divisor
            if not model_tensor.is_floating_point():
                value = value.round()
            result[name] = value.to(model_tensor.device, model_tensor.dtype)
        return result


def _weighted_sum(stacked: Tensor, weights: Sequence[float]) -> Tensor:
    dtype = wide(stacked)
    if all(weight == 1 for weight in weights):
        return stacked.sum(dim=0, dtype=dtype)
    total = torch.zeros(stacked.shape[1:], dtype=dtype, device=stacked.device)
    scale = torch.tensor(weights, dtype=dtype, device=stacked.device)
    for start in range(0, len(stacked), AT_A_TIME):
        some, of_them = (t[start : start + AT_A_TIME] for t in (stacked, scale))
        total += (some.to(dtype) * of_them.view(-1, *(1,) * total.ndim)).sum(dim=0)
    return total
