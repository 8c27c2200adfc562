"""The table of a comparison: mean (deviation) over seeds, the winner of each column marked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..experiments.comparison import Comparison, Summaries
from ..experiments.metrics import Spread


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None
    """What the column's winner is found by; None cannot win."""
    winner: bool = False


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[Summaries], Cell]
    highest_wins: bool


def per_cent(spread: Spread) -> Cell:
    if spread.mean is None:
        return Cell("-", None)
    text = f"{100 * spread.mean:.1f}"
    if spread.deviation is not None:
        text += f" ({100 * spread.deviation:.1f})"
    return Cell(text, round(100 * spread.mean, 1))


def whole(spread: Spread) -> Cell:
    """Rounds to a target. Seeds that never got there are told, not averaged away."""
    seeds, reached = len(spread.values), len(spread.reached)
    if reached == 0:
        return Cell("never", None)
    if spread.mean is None:
        rounds = ", ".join(f"{v:.0f}" for v in spread.reached)
        return Cell(f"{rounds}; {seeds - reached} of {seeds} never", None)
    text = f"{spread.mean:.1f}"
    if spread.deviation is not None:
        text += f" ({spread.deviation:.1f})"
    return Cell(text, round(spread.mean, 1))


def mebibytes(spread: Spread) -> Cell:
    if spread.mean is None:
        return Cell("-", None)
    value = spread.mean / 2**20
    return Cell("0" if value == 0 else f"{value:.2f}", round(value, 2))


def columns(comparison: Comparison) -> list[Column]:
    config = comparison.first

    shown = best_columns(config.half, config.rounds)
    if config.population.concept_shift:
        shown.append(Column("mean, %", spread_of("mean_over_rounds", per_cent), True))
    if (target := config.evaluation.target) is not None:
        title = f"rounds to {100 * target:g} %"
        shown.append(Column(title, spread_of("rounds_to_target", whole), False))
    return shown + byte_columns()


def spread_of(metric: str, form: Callable[[Spread], Cell]) -> Callable[[Summaries], Cell]:
    return lambda result: form(result.spread(metric))


def best_columns(half: int, rounds: int) -> list[Column]:
    return [
        Column(f"best to {half}, %", spread_of("best_half", per_cent), True),
        Column(f"best to {rounds}, %", spread_of("best", per_cent), True),
    ]


def byte_columns() -> list[Column]:
    return [
        Column("MiB down", spread_of("down_cross_device", mebibytes), False),
        Column("MiB down, silo", spread_of("down_cross_silo", mebibytes), False),
        Column("MiB up", spread_of("up", mebibytes), False),
        Column("MiB kept", spread_of("state_bytes", mebibytes), False),
    ]


def domain_columns(results: Sequence[Summaries]) -> list[Column]:
    summaries = [s for result in results for s in result.summaries]
    names: dict[str, float] = next((s["domains"] for s in summaries if "domains" in s), {})

    def of_domain(domain: str) -> Callable[[Summaries], Cell]:
        return lambda result: per_cent(result.domain_spread(domain))

    return [Column(f"{domain}, %", of_domain(domain), True) for domain in names]


def rows(results: Sequence[Summaries], shown: Sequence[Column]) -> list[list[Cell]]:
    """The cells, winners marked. Ties as printed are all winners."""
    table = [[column.cell(result) for column in shown] for result in results]
    for c, column in enumerate(shown):
        values = [value for row in table if (value := row[c].value) is not None]
        if not values:
            continue
        best = max(values) if column.highest_wins else min(values)
        for row in table:
            row[c] = Cell(row[c].text, row[c].value, winner=row[c].value == best)
    return table


def label(result: Summaries) -> str:
    """The name, with a word about seeds that are not in the means."""
    text, seeds = result.label, result.planned
    if result.diverged:
        text += f" [{result.diverged} of {seeds} diverged]"
    if len(result.summaries) < seeds:
        text += f" [{seeds - len(result.summaries)} of {seeds} not done]"
    return text


def markdown(results: Sequence[Summaries], shown: Sequence[Column]) -> str:
    lines = [
        "| algorithm | " + " | ".join(column.title for column in shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for result, cells in zip(results, rows(results, shown), strict=True):
        texts = [f"**{cell.text}**" if cell.winner else cell.text for cell in cells]
        lines.append("| " + " | ".join([label(result), *texts]) + " |")
    return "\n".join(lines) + "\n"


def terminal(results: Sequence[Summaries], shown: Sequence[Column], title: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.caption = "mean (deviation) over seeds; * best of its column; MiB: all rounds together"
    table.add_column("algorithm", overflow="fold", min_width=9)
    for column in shown:
        table.add_column(column.title, justify="right", no_wrap=len(column.title) < 12)
    for result, cells in zip(results, rows(results, shown), strict=True):
        texts = [f"[bold green]{c.text}*[/]" if c.winner else f"{c.text} " for c in cells]
        name = label(result).replace("[", r"\[").replace(",", "\n  ")
        table.add_row(name, *texts)
    return table
