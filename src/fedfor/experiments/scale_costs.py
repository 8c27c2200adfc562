"""What a method costs with a model: bytes that are sent, kept and held, and the time of summing.

Nothing here is a formula: a server sends a message, a client answers it, and what there is then is
counted and timed. Only the data are made up, of which neither depends.
"""

import copy
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, algorithm
from ..algorithms.sharing import trainable
from ..data import digits
from ..models import build_model
from ..protocol import Aggregation, Kept, LocalRound, Reply, Server
from ..randomness import torch_seeded
from ..tensors import extras_nbytes, nbytes
from .config import Section
from .own_process import answer

METHODS = ("fedfor", "fedavg", "fedprox", "fedcurv", "feddyn", "fedpd", "scaffold")

POPULATION = 10**10
"""It scales what some methods keep on the server; no size or time depends on it."""
LR = 0.01
REPLIES = 4
"""Different ones, so that not all of them are in a cache."""
FEWEST, MOST = 8, 4096
"""Replies that are summed at a time: a power of two, as pairs are added, so that none is left."""
LONG_ENOUGH = 0.1
"""Seconds of summing that a clock can tell."""
REPEATS = 5
"""The fastest counts: whatever else the machine did made the others slower."""


class Cost(Section):
    """Of one method with one model, in bytes and seconds."""

    method: str
    model: str
    parameters: int
    model_bytes: int
    """Of the model alone."""
    down: int
    """To a client that has nothing yet, after round 1: the cross-device form."""
    down_silo: int
    """To a client that still has the last model: the cross-silo form."""
    up: int
    kept: int
    """On each client between its rounds."""
    server: int
    """Held by the server between rounds: the model, the state of the method, where it came from."""
    summing: int
    """Held beside it while replies to a round are summed, but for partial sums."""
    partial: int
    """Of the sums over some replies."""
    summed: int
    """Replies in a timed sum."""
    seconds_fixed: float
    """To begin a sum, and to step the model once all replies are in it."""
    seconds_a_reply: float
    """To check a reply and add it."""
    seconds_a_merge: float
    """To add two partial sums."""


def cost(method: str, name: str, model: nn.Module) -> Cost:
    """Count and time two rounds of a method: in the first, nothing goes down beside the model."""
    chosen = algorithm(method)
    server = Server(chosen, model, POPULATION)
    clients = [_client(chosen, model, server) for _ in range(REPLIES)]
    server.aggregate([reply for reply, _ in clients], LR)
    message = server.message()
    clients = [_client(chosen, model, server) for _ in range(REPLIES)]
    replies, (_, kept) = [reply for reply, _ in clients], clients[0]
    held = held_bytes(server)
    sums = server.begin()
    sums.add(replies[0])
    partial = sum(extras_nbytes(node.value.sums) for node in sums.nodes())
    together = held_bytes(server, sums)
    return Cost(
        method=method,
        model=name,
        parameters=sum(p.numel() for p in server.params.values()),
        model_bytes=nbytes(server.model),
        down=message.nbytes,
        down_silo=message.silo_nbytes,
        up=replies[0].nbytes,
        kept=kept.nbytes if kept else 0,
        server=held,
        summing=together - held - partial,
        partial=partial,
        **_time(server, replies),
    )


def _client(chosen: Algorithm, model: nn.Module, server: Server) -> tuple[Reply, Kept | None]:
    """A client's round of one step, along a gradient that is made up."""
    own = copy.deepcopy(model)
    optimizer = torch.optim.SGD(own.parameters(), lr=LR)
    local = LocalRound(chosen, own, optimizer, server.message(), steps=1)
    for p in trainable(own).values():
        p.grad = torch.randn_like(p)
    optimizer.step()
    fisher = {name: torch.rand_like(p) for name, p in trainable(own).items()}
    return local.finish(examples=1, fisher=fisher if chosen.client.needs_fisher else None)


def _time(server: Server, replies: list[Reply]) -> dict[str, Any]:
    count = FEWEST
    while count < MOST and _sum(server, replies, count)[1] < LONG_ENOUGH:
        count *= 2
    rounds = [_sum(server, replies, count) for _ in range(REPEATS)]
    fixed, adding = (min(part) for part in zip(*rounds, strict=True))
    merging = min(_merge(server, replies) for _ in range(REPEATS))
    return {
        "summed": count,
        "seconds_fixed": fixed,
        "seconds_a_reply": adding / count,
        "seconds_a_merge": merging,
    }


def _sum(server: Server, replies: list[Reply], count: int) -> tuple[float, float]:
    """Seconds of a round's beginning and end, and of adding its replies."""
    began = time.perf_counter()
    sums = server.begin()
    begun = time.perf_counter()
    for reply in itertools.islice(itertools.cycle(replies), count):
        sums.add(reply)
    added = time.perf_counter()
    server.finish(sums, LR)
    return begun - began + time.perf_counter() - added, added - begun


def _merge(server: Server, replies: list[Reply]) -> float:
    ours, theirs = server.begin(), server.begin()
    ours.add(replies[0], place=0)
    theirs.add(replies[1], place=1)
    parts = theirs.nodes()
    began = time.perf_counter()
    ours.merge(parts)
    return time.perf_counter() - began


def held_bytes(*holders: Server | Aggregation) -> int:
    """Bytes of all tensors that these hold, those that several hold counted once."""
    found = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in _tensors(holders, set())}
    return sum(storage.nbytes() for storage in found.values())


def _tensors(thing: Any, seen: set[int]) -> Iterator[Tensor]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from _tensors(part, seen)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from _tensors(part, seen)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        yield from _tensors(vars(thing), seen)


def do_costs(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Of all methods with one model."""
    torch.set_num_threads(1)
    split = digits()
    with torch_seeded(0, "init"):
        model = build_model(asked["model"], split.train.x.shape[1:], split.train.classes)
    found = [cost(method, asked["model"], model) for method in METHODS]
    return {"costs": [one.model_dump(mode="json") for one in found]}


if __name__ == "__main__":
    answer(do_costs)
