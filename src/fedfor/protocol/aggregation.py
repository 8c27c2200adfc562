"""The replies of a round, summed as they come and not held."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm
from ..algorithms.sharing import buffers, stays_local, trainable
from ..errors import ConfigError
from ..tensors import Extras, Tensors, seem_finite
from .elementwise import steps_elementwise
from .message import Message, Reply, StackedReply
from .moves import Agreement, Moves
from .partial import Partial
from .rows import Rows, row_order
from .sums import averaged, sums, sums_and_distances
from .tree import Node, Tree

MODEL, MOVES, LOSS = "model", "moves", "loss"
"""The sums of a Partial beside those of extras, whose names have a dot before them."""


class Layout:
    """How the shared part of a model is summed and stepped: each tensor by itself, or `in_rows`."""

    def __init__(self, algorithm: Algorithm, model: nn.Module, in_rows: bool) -> None:
        own = stays_local(model, algorithm.sharing)
        params = {n: p for n, p in trainable(model).items() if n not in own}
        joined = in_rows and steps_elementwise(algorithm)
        order = row_order(model) if joined else params
        self.params = Rows({n: params[n] for n in order if n in params}, joined)
        held = {n: b for n, b in buffers(model).items() if n not in own}
        self.buffers = Rows(held, joined)


class Aggregation:
    """Adds up replies to a message. `last_move` is w(t-2) - w(t-1) in rows, where it is known.

    Each stack of replies is a leaf of a tree of sums, by its place in the round: so the numbers do
    not depend on who adds up what, or when.
    """

    def __init__(
        self, algorithm: Algorithm, message: Message, layout: Layout, last_move: Tensors | None
    ) -> None:
        self.algorithm, self.message, self._layout = algorithm, message, layout
        self._start = layout.params.join(message.params)
        self._buffers = layout.buffers.join(message.buffers)
        self.last_move = last_move
        self._moves = Moves(self._start, last_move)
        self._tree = Tree(Partial.plus)
        self._leaves = self._counted = 0
        self._root: Partial | None = None

    def add(
        self,
        reply: Reply | StackedReply,
        *,
        checked: bool = False,
        losses: Tensor | None = None,
        place: int | None = None,
    ) -> Tensor:
        """Count a reply in. One that cannot be one is refused, unless the caller has `checked`.

        Places go from 0 on; without one, replies have those in which they come. Gives back whether
        it is free of NaN and infinity, without waiting for a GPU. It may say no where only a sum is
        not finite.
        """
        if isinstance(reply, Reply):
            reply = reply.stacked()
        if not checked:
            self._require_sound(reply)
        by_examples = self.algorithm.weighting == "examples"
        weights = list(reply.examples) if by_examples else [1] * len(reply)
        model = self._layout.params.join(reply.model) | self._layout.buffers.join(reply.model)
        totals, known = sums_and_distances(self._start, model, weights)
        lengths = self._moves.add(model, weights if by_examples else None, known)
        to_check = [
            lengths,
            *(totals[n] for n, b in self._buffers.items() if b.is_floating_point()),
        ]
        found: Extras = {MODEL: totals, MOVES: self._moves.take()}
        for extra, tensors in reply.extras.items():
            found[f".{extra}"] = sums(self._layout.params.join(tensors), [1] * len(reply))
            to_check += found[f".{extra}"].values()
        if losses is not None:
            found[LOSS] = {LOSS: losses.sum(dtype=torch.float64)}
        leaf = Partial(len(reply), sum(weights), sum(reply.steps), reply.nbytes, found)
        self._tree.put(Node(0, self._leaves if place is None else place, leaf))
        self._leaves += 1
        self._counted += len(reply)
        return seem_finite(to_check)

    @contextmanager
    def as_leaf(self, place: int) -> Iterator[None]:
        """Whatever is added within counts as one leaf, of this place; nothing if it fails."""
        outer, before = self._tree, (self._leaves, self._counted)
        self._tree, self._leaves = Tree(Partial.plus), 0
        try:
            yield
            whole = self._tree.root()
        except BaseException:
            self._counted, whole = before[1], None
            raise
        finally:
            self._tree, self._leaves = outer, before[0]
        if whole is not None:
            outer.put(Node(0, place, whole))
            self._leaves += 1

    def merge(self, nodes: Iterable[Node[Partial]]) -> None:
        """Count in what others have added up."""
        for node in nodes:
            self._counted += node.value.clients
            self._tree.put(node)

    def nodes(self) -> list[Node[Partial]]:
        """What was added up here, for somebody else to `merge`."""
        return self._tree.nodes()

    def _require_sound(self, reply: StackedReply) -> None:
        for place in range(len(reply)):
            why = reply.one(place).problem(self.message, self.algorithm.client.up)
            if why is not None:
                number = self._counted + place + 1
                raise ConfigError(f"reply {number} of round {self.message.round}: {why}")

    @property
    def total(self) -> Partial:
        """All of them together, once all are there."""
        if self._root is None:
            self._root = self._tree.root()
        if self._root is None:
            raise ConfigError("no client replied, so the round cannot be aggregated")
        return self._root

    @property
    def count(self) -> int:
        return self._counted

    def mean(self) -> Tensors:
        return averaged(self.total.sums[MODEL], self._start | self._buffers, self.total.weight)

    def sums(self) -> Extras:
        up = self.algorithm.client.up
        return {extra: averaged(self.total.sums[f".{extra}"], self._start, 1) for extra in up}

    def mean_loss(self) -> Tensor:
        return self.total.sums[LOSS][LOSS] / self.total.clients

    def agreement(self, mean: Tensors) -> Agreement:
        return self._moves.agreement(mean, self.total.weight, self.total.sums[MOVES])
