"""The server's part of a round, whatever engine or network the clients are behind."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, ClientOpt, Cohort
from ..algorithms.presets import as_algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError
from ..tensors import Extras, Tensors, copies
from .message import Message, Reply, StackedReply
from .sums import Sums, distances, sums, sums_and_distances


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
        return float(self.finish(aggregation, client_lr))

    def begin(self) -> "Aggregation":
        """For callers that get the replies one by one: `add` each, then `finish` the round."""
        return Aggregation(self.algorithm, self.message())

    def finish(self, replies: "Aggregation", client_lr: float) -> Tensor:
        """The step itself, as `aggregate` does it. A GPU is not waited for."""
        mean, extras = replies.mean(), replies.sums()
        disagreement = replies.disagreement(mean)
        for name in self.params:
            self._step(name, mean[name], extras, Cohort(replies.count, self.population), client_lr)
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

    def snapshot(self) -> Extras:
        """The present state, for `load_state`: it stays as it is when the server moves on."""
        return {extra: dict(tensors) for extra, tensors in self.state().items()}

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
        self._sums = Sums()
        self._lengths: Tensor | float = 0.0

    def add(self, reply: Reply | StackedReply, *, checked: bool = False) -> Tensor:
        """Count a reply in. One that cannot be one is refused, unless the caller has `checked`.

        Gives back how far each client has moved: not finite where its parameters are not.
        """
        if isinstance(reply, Reply):
            reply = reply.stacked()
        if not checked:
            self._require_sound(reply)
        by_examples = self.algorithm.weighting == "examples"
        weights = list(reply.examples) if by_examples else [1] * len(reply)
        totals, lengths = sums_and_distances(self.message.params, reply.model, weights)
        self._sums.add("model", totals)
        for extra, tensors in reply.extras.items():
            self._sums.add(extra, sums(tensors, [1] * len(reply)))
        counted = lengths * torch.tensor(weights).to(lengths) if by_examples else lengths
        self._lengths += counted.sum()
        self._total += sum(weights)
        self.count += len(reply)
        return lengths

    def _require_sound(self, reply: StackedReply) -> None:
        for place in range(len(reply)):
            why = reply.one(place).problem(self.message, self.algorithm.client.up)
            if why is not None:
                number = self.count + place + 1
                raise ConfigError(f"reply {number} of round {self.message.round}: {why}")

    def mean(self) -> Tensors:
        if self.count == 0:
            raise ConfigError("no client replied, so the round cannot be aggregated")
        return self._sums.over("model", self.message.model, self._total)

    def sums(self) -> Extras:
        params = self.message.params
        return {extra: self._sums.over(extra, params, 1) for extra in self.algorithm.client.up}

    def disagreement(self, mean: Tensors) -> Tensor:
        """The mean length of a client's move over the length of their mean move."""
        params = self.message.params
        together = distances(params, {n: mean[n][None] for n in params})[0]
        ratio = self._lengths / self._total / together
        return torch.where(together == 0, torch.ones_like(ratio), ratio)
