"""What a round among very many clients needs, worked out from what was counted and measured."""

import math
from dataclasses import dataclass

from .scale_costs import Cost


@dataclass(frozen=True)
class Given:
    """What is assumed. All else is counted, measured or follows."""

    populations: tuple[int, ...] = (10**7, 10**10)
    cohorts: tuple[int, ...] = (1_000, 10_000)
    rounds: tuple[int, ...] = (100, 1_000, 10_000)
    """After which it is asked who has been called."""
    workers: tuple[int, ...] = (1, 10, 100)
    """Among which the replies of a round are shared out to be summed."""
    link: float = 10e9
    """Bits a second into and out of the server."""


def called_before(population: int, cohort: int, rounds: int) -> float:
    """The chance that a client called after so many rounds was called in one of them.

    1 - (1 - m/N)^t, without losing digits where m/N is tiny: cohorts are drawn alike and anew.
    """
    if cohort >= population:
        return float(rounds > 0)
    return -math.expm1(rounds * math.log1p(-cohort / population))


def clients_seen(population: int, cohort: int, rounds: int) -> float:
    """How many have been called after so many rounds, on average."""
    return population * called_before(population, cohort, rounds)


def seconds_on_link(bytes_: float, given: Given) -> float:
    return 8 * bytes_ / given.link


def server_memory(cost: Cost, cohort: int) -> int:
    """Bytes at the most, while the replies of a round come in one by one."""
    return cost.server + cost.summing + cost.partial * most_parts(cohort) + cost.up


def seconds_to_aggregate(cost: Cost, cohort: int, workers: int) -> float:
    """Each worker sums its share, pairs of them add their sums level by level, the model steps."""
    share, levels = -(-cohort // workers), math.ceil(math.log2(workers))
    adding = share * cost.seconds_a_reply + levels * cost.seconds_a_merge
    return adding + cost.seconds_fixed


def most_parts(replies: int) -> int:
    """The most partial sums that there are at once while so many replies are added, one by one.

    The tree holds one for each 1 in the binary count of those added, and then comes the next.
    """
    return replies.bit_length()
