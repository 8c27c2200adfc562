"""Whether the server can step all parameters at once."""

import copy

import torch
from torch import Tensor

from ..algorithms import Algorithm, ClientOpt, Cohort, ServerOpt
from ..tensors import Extras, Tensors
from .rows import Row

SHAPES = ((12, 10), (120,), (6, 5, 2, 2), (1,), ())
SCALES = (1e-3, 1.0, 1e3)


def steps_elementwise(algorithm: Algorithm) -> bool:
    """Whether the server's step makes of parameters laid end to end what it makes of each.

    Tried on a few of different shapes, near to zero and far from it. And it must not change what
    it is given.
    """
    try:
        client, server = copy.deepcopy(algorithm.client), copy.deepcopy(algorithm.server)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            return all(_is_elementwise(client, server, scale) for scale in SCALES)
    except Exception:  # it is the user's own code that runs here; what is wrong will show
        return False


def _is_elementwise(client: ClientOpt, server: ServerOpt, scale: float) -> bool:
    draw = torch.Generator().manual_seed(0)
    row = Row(SHAPES)

    def vector() -> Tensor:
        return scale * torch.randn(row.width, generator=draw, dtype=torch.float64)

    given: Extras = {
        "model": {"old": vector(), "mean": vector()},
        "sums": {extra: vector() for extra in client.up},
        "client": {extra: vector() for extra in client.server_keeps},
        "server": {kept: server.initial(kept) + vector().abs() for kept in server.keeps},
    }
    before = copy.deepcopy(given)
    whole = _made(client, server, given)
    parts = {kind: {n: row.split(t) for n, t in ts.items()} for kind, ts in given.items()}
    for place, shape in enumerate(SHAPES):
        one = {kind: {n: p[place] for n, p in ts.items()} for kind, ts in parts.items()}
        made = _made(client, server, one)
        if made.keys() != whole.keys() or any(t.shape != shape for t in made.values()):
            return False
        expected = {name: row.split(t)[place] for name, t in whole.items()}
        if not all(torch.allclose(t, expected[n], equal_nan=True) for n, t in made.items()):
            return False
    return all(torch.equal(t, before[kind][n]) for kind, ts in given.items() for n, t in ts.items())


def _made(client: ClientOpt, server: ServerOpt, given: Extras) -> Tensors:
    """All that comes of the step, as `Server` does it."""
    old, mean = given["model"]["old"], given["model"]["mean"]
    proposal, state = client.propose(old, mean, given["sums"], given["client"], Cohort(2, 5))
    new, kept = server.step(old, proposal, given["server"], 0.1)
    state = client.after(old, new, state)
    made = {"new": new}
    made |= {f"client {extra}": state[extra] for extra in client.server_keeps}
    return made | {f"server {extra}": kept[extra] for extra in server.keeps}
