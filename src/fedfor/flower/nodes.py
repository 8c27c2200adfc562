"""Which nodes are asked, and how long those are waited for that are not there."""

import random
import time
from collections.abc import Callable, Iterable
from logging import INFO, WARNING

from flwr.serverapp import Grid
from flwr.supercore import log

from ..errors import FedforError


class FederationError(FedforError):
    """A federation that cannot go on. What was computed is in its folder."""


class Sampler:
    """Draws nodes among those connected.

    For the first nodes it waits as long as it takes, as Flower does. Once a federation has begun,
    a node that left is waited for a while; then the others go on without it.
    """

    def __init__(self, available: int, patience: float) -> None:
        self.available, self.patience = available, patience
        self._has_begun = self._gave_up = False

    def draw(
        self, grid: Grid, entropy: int, fraction: float, least: int, fewest: int
    ) -> tuple[list[int], int]:
        """Nodes, and how many are connected. `least` are to be asked, `fewest` can do."""
        connected = self._connected(grid.get_node_ids, max(self.available, least))
        if len(connected) < fewest:
            raise FederationError(
                f"{len(connected)} nodes are connected, and {fewest} are needed; waited "
                f"{self.patience:g} s for the others"
            )
        if len(connected) < least:
            log(WARNING, "Going on with %d nodes in place of %d", len(connected), least)
        self._has_begun = True
        count = min(max(int(len(connected) * fraction), least), len(connected))
        drawn = random.Random(entropy).sample(sorted(connected), count)
        return sorted(drawn), len(connected)

    def _connected(self, ask: Callable[[], Iterable[int]], wanted: int) -> list[int]:
        nodes = list(ask())
        end = time.monotonic() + (0 if self._gave_up else self.patience)
        while len(nodes) < wanted and not (self._has_begun and time.monotonic() >= end):
            log(
                INFO,
                "Waiting for nodes to connect: %d connected (minimum required: %d).",
                len(nodes),
                wanted,
            )
            time.sleep(1)
            nodes = list(ask())
        self._gave_up = len(nodes) < wanted  # and is not waited for again, unless all are back
        return nodes
