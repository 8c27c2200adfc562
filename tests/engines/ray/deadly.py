"""Losses that harm a worker in the middle of a round. Workers import them."""

import os
import signal
import time
from pathlib import Path

import torch
from torch import Tensor, nn


def befallen(flag: Path, times: int = 1) -> bool:
    """Whether this process is the one that it befalls: true for so many of those that ask."""
    for time_ in range(times):
        try:
            flag.with_suffix(f".{time_}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def is_worker() -> bool:
    import ray

    return bool(ray.is_initialized() and ray.get_runtime_context().worker.mode == 1)


def killing(outputs: Tensor, targets: Tensor, *, flag: Path, times: int = 1) -> Tensor:
    """The worker's process is killed, as the system does when memory runs out."""
    if is_worker() and befallen(flag, times):
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.functional.cross_entropy(outputs, targets)


def halting(outputs: Tensor, targets: Tensor, *, flag: Path) -> Tensor:
    """A worker says on which node it is, and does no more. One node is spared."""
    import ray

    spared = flag.with_suffix(".spared").read_text()
    if is_worker() and ray.get_runtime_context().get_node_id() != spared and befallen(flag):
        flag.with_suffix(".writing").write_text(ray.get_runtime_context().get_node_id())
        flag.with_suffix(".writing").rename(flag)
        time.sleep(3600)
    return nn.functional.cross_entropy(outputs, targets)


def stopping(outputs: Tensor, targets: Tensor, *, flag: Path) -> Tensor:
    """The worker's process stands still until somebody lets it go on."""
    if is_worker() and befallen(flag):
        flag.with_suffix(".writing").write_text(str(os.getpid()))
        flag.with_suffix(".writing").rename(flag)
        os.kill(os.getpid(), signal.SIGSTOP)
    return nn.functional.cross_entropy(outputs, targets)


def failing(outputs: Tensor, targets: Tensor, *, flag: Path, batch: int) -> Tensor:
    """While the flag is there, whoever has a batch of so many cannot be trained by any worker.

    No worker is the worse for it. If only one of them failed, another that was given the same
    clients, because the first was slow, would make it good.
    """
    if len(targets) == batch and is_worker() and flag.exists():
        raise RuntimeError("it was to be")
    return nn.functional.cross_entropy(outputs, targets)


class Hungry(nn.Module):
    """Finds no memory, as a worker, for more than two clients at once."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        if is_worker() and _together(x) > 2:
            torch.empty(2**60, dtype=torch.uint8)
        return self.layer(x.flatten(1))


def _together(x: Tensor) -> int:
    """Of how many clients these samples are, seen from within vmap."""
    functorch = torch._C._functorch
    while not functorch.is_batchedtensor(x):
        if not functorch.is_functorch_wrapped_tensor(x):
            return 1
        x = functorch.get_unwrapped(x)
    return functorch.get_unwrapped(x).shape[functorch.maybe_get_bdim(x)]
