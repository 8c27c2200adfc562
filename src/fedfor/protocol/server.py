"""The server's part of a round, whatever engine or network the clients are behind."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, ClientOpt, Cohort
from ..algorithms.presets import as_algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError, require_choice
from ..tensors import Extras, Tensors, copies, seem_finite
from .aggregation import Aggregation, Layout
from .compression import FORMS, encode_extras
from .message import Message, Reply, StackedReply
from .moves import Agreement

BEFORE = "before"
"""In the state: the parameters before the last step, where no ClientOpt keeps what it moved."""


class Server:
    """Holds the global model, sends it out and moves it by what comes back.

    `round` counts the rounds that are done. `population` is the number of clients that there are;
    FedDyn and SCAFFOLD scale their server state by it.

    `in_rows` is for simulations: all parameters are stepped at once where the method allows it,
    and lie side by side in memory. What carries tensors elsewhere may want each in its own.
    """

    def __init__(
        self,
        algorithm: Algorithm | ClientOpt | str,
        model: nn.Module,
        population: int,
        *,
        in_rows: bool = False,
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
        for extra, form in client.sent_as.items():
            require_choice(client.name, "sent_as", extra, client.down)
            require_choice(client.name, f"sent_as['{extra}']", form, FORMS)
        self.client_state: Extras = {
            kept: {n: torch.zeros_like(w) for n, w in self.params.items()}
            for kept in client.server_keeps
        }
        self.server_state: Extras = {
            kept: {n: torch.full_like(w, server.initial(kept)) for n, w in self.params.items()}
            for kept in server.keeps
        }
        self._keeps_last_move = client.difference in self.client_state
        self._before: Tensors = {}
        self._layout = Layout(self.algorithm, model, in_rows)
        self._rows, self._buffer_rows = self._layout.params, self._layout.buffers

    @property
    def model(self) -> Tensors:
        """The shared part of the global model."""
        return {**self.params, **self.buffers}

    def message(self) -> Message:
        """What goes down to every client of the next round. Round 1 has no extras: all are zero.

        The server's own state stays exact, whatever form its extras are sent in.
        """
        client = self.algorithm.client
        extras: Extras = {}
        if self.round:
            extras = {extra: dict(self.client_state[extra]) for extra in client.down}
        return Message.from_wire(
            self.round + 1,
            dict(self.params),
            dict(self.buffers),
            encode_extras(extras, client.sent_as),
            client.sent_as,
            client.difference,
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
        length of their mean move. 1 is full agreement. `finish` tells more of how they agree.

        They may be a generator that trains as it goes, so nothing here switches autograd off. A
        reply that cannot be one is refused, unless the caller has `checked` them all.
        """
        aggregation = self.begin()
        for reply in replies:
            aggregation.add(reply, checked=checked)
        return float(self.finish(aggregation, client_lr).disagreement)

    def begin(self) -> Aggregation:
        """For callers that get the replies one by one: `add` each, then `finish` the round."""
        # Replies answer the model; extras need not be encoded once more for them.
        sent = Message(self.round + 1, dict(self.params), dict(self.buffers))
        last = self._last_move()
        return Aggregation(self.algorithm, sent, self._layout, last)

    def _last_move(self) -> Tensors | None:
        """w(t-2) - w(t-1) in rows, whatever the algorithm; None where it is not known."""
        difference = self.algorithm.client.difference
        if self.round and difference is not None and self._keeps_last_move:
            return self._rows.join(self.client_state[difference])
        if not self._before:
            return None
        before, now = self._rows.join(self._before), self._rows.join(self.params)
        return {name: w - now[name] for name, w in before.items()}

    def finish(self, replies: Aggregation, client_lr: float) -> Agreement:
        """The step itself, as `aggregate` does it. A GPU is not waited for."""
        mean, sums_of_extras = replies.mean(), replies.sums()
        agreement, before = replies.agreement(mean), dict(self.params)
        self._step(mean, sums_of_extras, Cohort(replies.count, self.population), client_lr)
        self.buffers |= self._buffer_rows.split(mean)
        self._came_from(before)
        self.round += 1
        return agreement

    def _came_from(self, before: Tensors) -> None:
        """Hold on to where the last step began. It is no copy: steps make new tensors."""
        if not self._keeps_last_move:
            self._before = dict(before)

    def _step(self, mean: Tensors, sums: Extras, cohort: Cohort, client_lr: float) -> None:
        """ClientOpt's server side, then the ServerOpt: on each parameter, or on all in a row."""
        client, server = self.algorithm.client, self.algorithm.server
        params = self._rows.join(self.params)
        client_state = {extra: self._rows.join(ts) for extra, ts in self.client_state.items()}
        server_state = {extra: self._rows.join(ts) for extra, ts in self.server_state.items()}
        for name, old in params.items():
            state = {extra: tensors[name] for extra, tensors in client_state.items()}
            own_sums = {extra: tensors[name] for extra, tensors in sums.items()}
            proposal, state = client.propose(old, mean[name], own_sums, state, cohort)
            kept = {extra: tensors[name] for extra, tensors in server_state.items()}
            new, kept = server.step(old, proposal, kept, client_lr)
            state = client.after(old, new, state)
            params[name] = new
            for extra in client_state:
                client_state[extra][name] = state[extra]
            for extra in server_state:
                server_state[extra][name] = kept[extra]
        self.params |= self._rows.split(params)
        for held, rows in ((self.client_state, client_state), (self.server_state, server_state)):
            for extra in held:
                held[extra] |= self._rows.split(rows[extra])

    def move_to(self, model: Tensors, before: Tensors | None) -> None:
        """Go on from another model than the last step led to: one with noise on it, say.

        `before` has the parameters that this step began at; what the ClientOpt makes of the step
        is then made anew.
        """
        for name, old in self.params.items():
            self.params[name] = model[name].to(old.device, old.dtype)
        for name, held in self.buffers.items():
            self.buffers[name] = model[name].to(held.device, held.dtype)
        if before is None:
            return
        self._came_from(before)
        for name, new in self.params.items():
            state = {extra: tensors[name] for extra, tensors in self.client_state.items()}
            state = self.algorithm.client.after(before[name], new, state)
            for extra, tensors in self.client_state.items():
                tensors[name] = state[extra]

    def seems_finite(self) -> Tensor:
        """Whether the global model is free of NaN and infinity, without waiting for a GPU. It may
        say no where only a sum is not finite."""
        model = self._rows.join(self.params) | self._buffer_rows.join(self.buffers)
        return seem_finite([t for t in model.values() if t.is_floating_point()])

    def state(self) -> Extras:
        """All that a restarted server needs besides `round`."""
        return {**self._held(), **({} if self._keeps_last_move else {BEFORE: self._before})}

    def _held(self) -> Extras:
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
        """Go on from a saved state of the same algorithm and model.

        An older one may not tell where the last step began: for a round, `opposing` is not known.
        """
        for extra, tensors in self._held().items():
            tensors |= _fitting(extra, state.get(extra, {}), tensors)
        before = {} if self._keeps_last_move else state.get(BEFORE, {})
        self._before = _fitting(BEFORE, before, self.params) if before else {}
        self.round = round


def _fitting(extra: str, saved: Tensors, like: Tensors) -> Tensors:
    """Copies of what was saved, which must be such tensors."""
    for name, tensor in like.items():
        found = saved.get(name)
        if found is None or found.shape != tensor.shape:
            raise ConfigError(
                f"the saved state does not fit: '{extra}/{name}' is "
                + ("missing" if found is None else f"of shape {tuple(found.shape)}")
            )
    return {n: saved[n].to(t.device, t.dtype).clone() for n, t in like.items()}
