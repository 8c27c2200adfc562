"""The page on what a deployment needs: every number counted, measured or worked out from these."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import FolderError
from ..experiments.deployment import (
    Given,
    called_before,
    clients_seen,
    seconds_on_link,
    seconds_to_aggregate,
    server_memory,
)
from ..experiments.scale_costs import Cost
from ..experiments.scale_results import ScaleResults
from .quantities import lasting, per_cent, short, sized, whole
from .scale import made_by, markdown_table


@dataclass(frozen=True)
class Part:
    """A table, and how its numbers came about."""

    title: str
    how: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, level: int) -> str:
        table = markdown_table(self.titles, self.rows)
        return f"{'#' * level} {self.title}\n\n{self.how}\n\n{table}"


def deployment_markdown(results: ScaleResults, given: Given | None = None, level: int = 2) -> str:
    """All of it. `level` is that of its headings."""
    given = Given() if given is None else given
    model, costs = _largest(results)
    parts = [
        _in_short(costs, given),
        _of_a_client(costs),
        _of_a_round(costs, given),
        _server(costs, given),
        _state(costs, given),
        _called(given),
        _summing(costs),
        _by_model(results),
        _aggregating(costs, given),
    ]
    words = [_assumed(model, costs[0], given), *_simulated(results)]
    texts = [*words, *(part.markdown(level) for part in parts), f"{made_by(results.made)}."]
    return "\n\n".join(texts) + "\n"


def deployment_title(given: Given | None = None) -> str:
    given = Given() if given is None else given
    return f"A deployment at {_listed(map(whole, given.populations))} clients"


def _largest(results: ScaleResults) -> tuple[str, list[Cost]]:
    if not results.costs:
        raise FolderError(
            "these results do not tell what methods send and keep; go on with 'fedfor scale' until "
            "they do"
        )
    model = max(results.costs, key=lambda cost: cost.parameters).model
    return model, [cost for cost in results.costs if cost.model == model]


def _assumed(model: str, cost: Cost, given: Given) -> str:
    return (
        f"Given: the model {model}, {cost.parameters:,} parameters in {sized(cost.model_bytes)}; "
        f"{_listed(map(whole, given.populations))} clients; "
        f"{_listed(map(whole, given.cohorts))} of them called a round, drawn alike and anew each "
        "time. **Counted** is what this package's own server and clients sent, kept and held in "
        "round 2, with made-up gradients. **Measured** was timed where the last line says. "
        "**Derived** follows from these, as is said above each table."
    )


def _simulated(results: ScaleResults) -> list[str]:
    """Of the population alone, as the first table has it."""
    along = results.along("population")
    if len(along) < 2:
        return []
    few, many = along[0], along[-1]
    assert few.a_round is not None
    assert many.a_round is not None
    return [
        f"Measured: simulated here, a round of {whole(few.case.cohort)} clients took "
        f"{lasting(few.a_round)} among {whole(few.case.population)} and {lasting(many.a_round)} "
        f"among {whole(many.case.population)}, {short(many.a_round / few.a_round)} times as long."
    ]


def _in_short(costs: Iterable[Cost], given: Given) -> Part:
    cohort, workers = given.cohorts[-1], given.workers[len(given.workers) // 2]
    return Part(
        "In short",
        f"A round of {whole(cohort)} clients, whatever the population; and what all clients "
        f"together keep. Time: both ways at {given.link / 1e9:g} Gbit/s, then summing on {workers} "
        "workers, without what clients compute and what workers send each other. The tables below "
        "say how each number came about.",
        ("", "down", "up", "time", "server", *(f"state, {whole(n)}" for n in given.populations)),
        [
            [
                c.method,
                *_traffic(c, cohort, given)[:2],
                lasting(
                    seconds_on_link((c.down + c.up) * cohort, given)
                    + seconds_to_aggregate(c, cohort, workers)
                ),
                sized(server_memory(c, cohort)),
                *(sized(c.kept * n) for n in given.populations),
            ]
            for c in costs
        ],
    )


def _of_a_client(costs: Iterable[Cost]) -> Part:
    return Part(
        "Counted: bytes of a client",
        "A message and a reply of each method. Cross-silo: to a client that still has the last "
        "model, as one has that is called in each round. Round 1 sends the model alone.",
        ("", "down, cross-device", "down, cross-silo", "up", "kept between rounds"),
        [[c.method, *map(sized, (c.down, c.down_silo, c.up, c.kept))] for c in costs],
    )


def _of_a_round(costs: Iterable[Cost], given: Given) -> Part:
    cells = [
        [c.method, *(cell for m in given.cohorts for cell in _traffic(c, m, given))] for c in costs
    ]
    return Part(
        "Derived: bytes of a round",
        "The bytes of a client, cross-device, times the clients called. They are the same for any "
        f"population. The time is that of both ways at {given.link / 1e9:g} Gbit/s, one after the "
        "other; the link is given.",
        ("", *(f"{whole(m)}: {what}" for m in given.cohorts for what in ("down", "up", "time"))),
        cells,
    )


def _traffic(cost: Cost, cohort: int, given: Given) -> list[str]:
    down, up = cost.down * cohort, cost.up * cohort
    return [sized(down), sized(up), lasting(seconds_on_link(down + up, given))]


def _server(costs: Iterable[Cost], given: Given) -> Part:
    return Part(
        "Derived: memory of the server",
        "Between rounds: counted, the model, the method's own state and the model before. A "
        "partial sum: counted, in 8 bytes a number, of what replies hold and of their moves, which "
        "tell how clients agree. In a round, beside what is there between rounds: a reply, three "
        "or four rows as long as the model to take moves from, and as many partial sums as the "
        "tree of sums has at once at most when replies come one by one, 10 of 1,000. None of it "
        "depends on the population.",
        ("", "between rounds", "a partial sum", *(f"a round of {whole(m)}" for m in given.cohorts)),
        [
            [
                c.method,
                sized(c.server),
                sized(c.partial),
                *(sized(server_memory(c, m)) for m in given.cohorts),
            ]
            for c in costs
        ],
    )


def _state(costs: Iterable[Cost], given: Given) -> Part:
    t, m = given.rounds[-1], given.cohorts[-1]
    seen = [clients_seen(n, m, t) for n in given.populations]
    return Part(
        "Derived: state of all clients",
        f"What a client keeps, times all clients; and times those seen in {whole(t)} rounds of "
        f"{whole(m)}, N (1 - (1 - m/N)^t) on average. It is on the devices, or in a store of the "
        f"server's: this then reads, and writes anew, what those keep that a round of {whole(m)} "
        "calls.",
        (
            "",
            *(f"all {whole(n)}" for n in given.populations),
            *(f"of {whole(n)}, those seen" for n in given.populations),
            "read, and written, a round",
        ),
        [
            [
                c.method,
                *(sized(c.kept * n) for n in given.populations),
                *(sized(c.kept * count) for count in seen),
                sized(c.kept * m),
            ]
            for c in costs
        ],
    )


def _called(given: Given) -> Part:
    return Part(
        "Derived: whether a client that is called has any state",
        "N/m rounds lie between two calls of a client on average; m/N is the chance that it was "
        "called in the round before, which FedCurv's own share asks for; after t rounds, "
        "1 - (1 - m/N)^t of those called have been called before. All others have nothing, and a "
        "method that lives on what they keep is then without it.",
        (
            "",
            "clients called",
            "rounds between calls",
            "called the round before",
            *(f"before, t={whole(t)}" for t in given.rounds),
        ),
        [
            [
                f"{whole(n)} clients",
                whole(m),
                short(n / m),
                per_cent(called_before(n, m, 1)),
                *(per_cent(called_before(n, m, t)) for t in given.rounds),
            ]
            for n in given.populations
            for m in given.cohorts
        ],
    )


def _summing(costs: Iterable[Cost]) -> Part:
    return Part(
        "Measured: the time of summing",
        "On one core: to check and add a reply, the mean over a sum of some; to add two partial "
        "sums; and to begin a round's sum and step the model at its end. The fastest "
        "of five.",
        ("", "a reply", "two sums", "begin and step"),
        [[c.method, *_times(c)] for c in costs],
    )


def _by_model(results: ScaleResults) -> Part:
    of_plan = [c for c in results.costs if c.method == results.costs[0].method]
    return Part(
        f"Measured: the same for {of_plan[0].method}, by model",
        "A parameter: the time of a reply over the model's parameters.",
        ("", "parameters", "a reply", "two sums", "begin and step", "a parameter"),
        [
            [
                c.model,
                whole(c.parameters),
                *_times(c),
                f"{short(1e9 * c.seconds_a_reply / c.parameters)} ns",
            ]
            for c in of_plan
        ],
    )


def _times(cost: Cost) -> list[str]:
    return [*map(lasting, (cost.seconds_a_reply, cost.seconds_a_merge, cost.seconds_fixed))]


def _aggregating(costs: Iterable[Cost], given: Given) -> Part:
    cases = [(m, n) for m in given.cohorts for n in given.workers]
    return Part(
        "Derived: time of aggregation",
        "Clients called, on so many workers like this core: a reply's time, times the largest "
        "share of a worker; that of two sums, times the levels of a tree over the workers, "
        "log2(n) rounded up; begin and step once. What is sent between workers is not in it.",
        ("", *(f"{whole(m)} on {n}" for m, n in cases)),
        [[c.method, *(lasting(seconds_to_aggregate(c, m, n)) for m, n in cases)] for c in costs],
    )


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
