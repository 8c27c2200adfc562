"""Randomness as a function of (seed, purpose, round, client).

No generator is ever shared or carried along, so results depend neither on the order in which
clients are trained, nor on the number of workers, nor on an interruption.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def entropy(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:  # noqa: A002
    """128 bits that are the same on every machine."""
    text = f"{seed}/{purpose}/{round}/{client}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def generator(
    seed: int,
    purpose: str,
    round: int = 0,  # noqa: A002
    client: int = 0,
) -> np.random.Generator:
    return np.random.default_rng(entropy(seed, purpose, round, client))


@contextmanager
def torch_seeded(
    seed: int,
    purpose: str,
    round: int = 0,  # noqa: A002
    client: int = 0,
    device: torch.device | None = None,
) -> Iterator[None]:
    """Within, torch's own generators (weight init, dropout) are seeded; after, as before."""
    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(entropy(seed, purpose, round, client) % 2**63)
        yield
