"""Whether a method can be computed on a whole matrix of clients."""

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ...algorithms import ClientOpt, Local
from ...errors import ConfigError, in_short
from ...tensors import Tensors

WIDTH = 120
SCALES = (1e-3, 1.0, 1e3)


def require_elementwise(client: ClientOpt) -> None:
    """Refuse a ClientOpt to which it matters what lies beside a weight.

    What it makes of two clients must be what it makes of some of their weights, of one client
    among them, and of that client's weights as the parameters they are, one by one; near to zero
    and far from it. And it must not change what it is given.
    """
    try:
        same = all(_is_elementwise(client, scale) for scale in SCALES)
    except Exception as error:  # it is the user's own code that runs here
        raise ConfigError(
            f"the vector engine cannot use {client.name} on many clients at once, where the "
            f"numbers in `local` are tensors ({in_short(error)}); use engine = 'serial'"
        ) from error
    if not same:
        raise ConfigError(
            f"the vector engine cannot use {client.name}, which makes of a weight what depends on "
            "other weights or clients, or on the parameter's shape; use engine = 'serial'"
        )


def _is_elementwise(client: ClientOpt, scale: float) -> bool:
    draw = torch.Generator().manual_seed(0)

    def rows(count: int) -> Tensor:
        return scale * torch.randn(count, WIDTH, generator=draw, dtype=torch.float64)

    w, start = rows(2), rows(1)
    before = w.clone(), start.clone()
    x = {extra: rows(1) for extra in client.down} | {extra: rows(2) for extra in client.keeps}
    if client.needs_fisher:
        x["fisher"] = rows(2).square()
    lr, steps = torch.full((1, 1), 2.0).double(), torch.tensor([[2.0], [3.0]]).double()

    def some(clients: slice, columns: slice) -> Tensors:
        of_them = {e: t[clients if len(t) > 1 else slice(None), columns] for e, t in x.items()}
        local = Local(lr, steps[clients], steps[clients] - 2)
        return _made(client, w[clients, columns], start[:, columns], of_them, local)

    def first(shape: tuple[int, ...]) -> Tensors:
        of_it = {extra: t[0].view(shape) for extra, t in x.items()}
        made = _made(client, w[0].view(shape), start[0].view(shape), of_it, Local(2.0, 2, 0.0))
        return {name: t.reshape(1, -1) for name, t in made.items()}

    every = slice(None)
    whole = some(every, every)
    if "added" in whole:
        make_fx(lambda rate: client.added_gradient(w, start, x, Local(rate, rate, rate)))(steps)
    cases = [(some(*at), at) for at in ((every, slice(4)), (slice(1), every), (slice(1, 2), every))]
    cases += [(first(shape), (slice(1), every)) for shape in ((WIDTH,), (12, 10), (6, 5, 2, 2))]
    untouched = torch.equal(w, before[0]) and torch.equal(start, before[1])
    return untouched and all(
        part.keys() == whole.keys()
        and all(torch.allclose(t, whole[name][at]) for name, t in part.items())
        for part, at in cases
    )


def _made(client: ClientOpt, w: Tensor, start: Tensor, x: Tensors, local: Local) -> Tensors:
    """All that the ClientOpt computes in a round, of the shape of the weights."""
    outcome = client.finish(w, start, x, local)
    made = {"upload": outcome.upload}
    made |= {f"up {extra}": t for extra, t in outcome.up.items()}
    made |= {f"kept {extra}": t for extra, t in outcome.kept.items()}
    added = client.added_gradient(w, start, {e: t for e, t in x.items() if e != "fisher"}, local)
    if added is not None:
        made["added"] = added
    return {name: t.expand_as(w) for name, t in made.items()}
