"""Who is there, who drops out and who is slow: by a trace of devices, else by chance."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

from ..errors import require_number, require_whole
from ..randomness import entropy
from .traces import Device, read_trace


@dataclass(frozen=True)
class Availability:
    """Settings of who is there, and of how a server copes (Bonawitz et al., 2019)."""

    rate: float = 1.0
    """The chance that a client is there in a round."""
    dropout: float = 0.0
    """The chance that a client that was called drops out after training began."""
    slowness: float = 0.0
    """How unlike the clients' speeds are: sigma of a log-normal with median 1."""
    over_sampling: float = 1.0
    """Clients called for each one that is wanted."""
    deadline: float | None = None
    """When reports no longer count; a client of speed 1 with the mean amount of data takes 1."""
    least: int = 1
    """The fewest reports with which a round counts."""
    trace: Path | str | None = None
    """A file with a device a line, which goes before the chances above."""
    devices: tuple[Device, ...] = field(init=False, repr=False)
    """What the trace says, read once."""

    def __post_init__(self) -> None:
        for name in ("rate", "dropout"):
            require_number("availability", name, getattr(self, name), least=0, most=1)
        # Of a sigma of 10, one client in six is 20,000 times as fast as the median.
        require_number("availability", "slowness", self.slowness, least=0, most=10)
        require_number("availability", "over_sampling", self.over_sampling, least=1, most=100)
        if self.deadline is not None:
            require_number("availability", "deadline", self.deadline, above=0)
        require_whole("availability", "least", self.least)
        devices = () if self.trace is None else read_trace(Path(self.trace))
        object.__setattr__(self, "devices", devices)

    def to_call(self, cohort: int) -> int:
        """Rounded up; exactly 110 for 1.1 times 100, which floats take for a little more."""
        return math.ceil(cohort * Fraction(str(self.over_sampling)))


class Behaviour:
    """What each client does, as a function of (seed, round, client)."""

    def __init__(self, availability: Availability, seed: int, population: int) -> None:
        self.availability, self.seed, self.population = availability, seed, population

    def is_there(self, client: int, round: int) -> bool:  # noqa: A002
        told = self._device(client).is_there(round)
        if told is not None:
            return told
        return self._chance("client-there", round, client) < self.availability.rate

    def drops_out(self, client: int, round: int) -> bool:  # noqa: A002
        told = self._device(client).dropout
        dropout = self.availability.dropout if told is None else told
        return self._chance("client-drops-out", round, client) < dropout

    def speed(self, client: int) -> float:
        """The same in all rounds."""
        if (told := self._device(client).speed) is not None:
            return told
        normal = NormalDist().inv_cdf(self._chance("client-speed", 0, client))
        return math.exp(self.availability.slowness * normal)

    def _device(self, client: int) -> Device:
        """The client's line of the trace, or one drawn for it where there are more clients."""
        if not (devices := self.availability.devices):
            return UNTOLD
        if self.population > len(devices):
            client = entropy(self.seed, "client-device", client=client) % len(devices)
        return devices[client]

    def _chance(self, purpose: str, round: int, client: int) -> float:  # noqa: A002
        """Between 0 and 1 and never one of them, so that never and always are just that."""
        return ((entropy(self.seed, purpose, round, client) >> 76) + 0.5) / 2**52


UNTOLD = Device()
