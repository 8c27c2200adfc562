"""A round as a server sees it: whom it calls, who reports, and when."""

import itertools
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from .availability import Availability, Behaviour
from .population import Population, candidates, require_cohort, sample_cohort

LOOKED_AT, LOOKED_AT_MORE = 100, 1000
"""A server looks at so many clients for each one to be called, and at so many more, at most."""


@dataclass(frozen=True)
class Call:
    """Who took part in a round."""

    round: int
    called: list[int]
    """Who got the model, in rising order."""
    clients: list[int]
    """Whose reports count, in rising order; nobody if the round is abandoned."""
    told: dict[str, Any]
    """What the round's record says of it; nothing where everyone is always there."""


class Caller:
    """Calls the clients of each round: a function of the seed and the round alone.

    Clients that drop out, are late or in surplus leave no trace, as if they had not been called.
    """

    def __init__(
        self,
        population: Population,
        cohort: int,
        seed: int,
        availability: Availability | None = None,
    ) -> None:
        require_cohort(population.size, cohort)
        self.population, self.cohort, self.seed = population, cohort, seed
        self.availability = availability
        self._recent: dict[int, Call] = {}
        self._counted = 0, 0
        if availability is None:
            return
        if availability.least > cohort:
            raise ConfigError(
                f"availability.least is {availability.least} but population.cohort is {cohort}: "
                f"no round could count; set it to {cohort} or less"
            )
        self._behaviour = Behaviour(availability, seed, population.size)

    def shortage(self) -> str | None:
        """A sentence where too few will be found for a round, though there may be more."""
        how = self.availability
        if how is None or how.trace is not None:
            return None
        wanted = how.to_call(self.cohort)
        looked_at = _most_looked_at(wanted)
        found = how.rate * looked_at
        if found >= wanted or self.population.size <= looked_at:
            return None
        return (
            f"availability.rate is {how.rate:g}, and a server looks at {looked_at:,} clients a "
            f"round: about {found:.2g} of {wanted} will be called"
        )

    def call(self, t: int) -> Call:
        """Call the clients of round t and wait for their reports."""
        if t not in self._recent:  # asked for in the round before, in its own and in the one after
            self._recent = {s: c for s, c in self._recent.items() if abs(s - t) <= 2}
            self._recent[t] = self._call(t)
        return self._recent[t]

    def last_counted(self, t: int) -> int:
        """The last round up to this one that was not abandoned; 0 if all were."""
        known, counted = self._counted
        for s in range(t, known if known <= t else 0, -1):
            if self.call(s).clients:
                counted = s
                break
        else:
            counted = counted if known <= t else 0
        self._counted = t, counted
        return counted

    def _call(self, t: int) -> Call:
        if self.availability is None:
            clients = sample_cohort(self.seed, t, self.population.size, self.cohort)
            return Call(t, clients, list(clients), {})
        called, away = self._reach(t, self.availability)
        reports = self._reports(t, called)
        deadline = self.availability.deadline
        timely = [(time, k) for time, k in reports if deadline is None or time <= deadline]
        counted = timely[: self.cohort]
        told: dict[str, Any] = {
            "called": len(called),
            "away": away,
            "dropped": len(called) - len(reports),
            "late": len(reports) - len(timely),
            "surplus": len(timely) - len(counted),
        }
        if len(counted) < self.cohort and told["late"] and deadline is not None:
            told["waited"] = float(deadline)
        else:
            told["waited"] = counted[-1][0] if counted else 0.0
        if len(counted) < self.availability.least:
            told["abandoned"], counted = True, []
        return Call(t, sorted(called), sorted(k for _, k in counted), told)

    def _reach(self, t: int, availability: Availability) -> tuple[list[int], int]:
        """Those who are called, as they were found, and how many were passed over."""
        wanted = availability.to_call(self.cohort)
        order = candidates(self.seed, t, self.population.size, self.cohort)
        called: list[int] = []
        away = 0
        for k in itertools.islice(order, _most_looked_at(wanted)):
            if len(called) == wanted:
                break
            if self._behaviour.is_there(k, t):
                called.append(k)
            else:
                away += 1
        return called, away

    def _reports(self, t: int, called: list[int]) -> list[tuple[float, int]]:
        """When each of those who did not drop out reports, the first first.

        At the same time, whoever was called first is: in random order, so nobody goes before others
        for a number.
        """
        work = self._work(t, called)
        reports = [
            (work[k] / self._behaviour.speed(k), k)
            for k in called
            if not self._behaviour.drops_out(k, t)
        ]
        return sorted(reports, key=lambda report: report[0])

    def _work(self, t: int, called: list[int]) -> dict[int, float]:
        """In units of what a called client has on average; alike where that is not known."""
        examples = {k: self.population.examples(k, t) for k in called}
        known = {k: n for k, n in examples.items() if n is not None}
        if len(known) < len(called) or not (total := sum(known.values())):
            return dict.fromkeys(called, 1.0)
        return {k: n * len(called) / total for k, n in known.items()}


def _most_looked_at(wanted: int) -> int:
    return LOOKED_AT * wanted + LOOKED_AT_MORE
