"""The table of `fedfor scale`, for a terminal and as Markdown."""

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from ..experiments.scale import described
from ..experiments.scale_plan import Case
from ..experiments.scale_results import Made, Measured, ScaleResults
from .quantities import MISSING, mebibytes, per_cent, short, sized, whole

WORDS = ("", "model")
"""Columns that are not numbers."""
OF_WORKERS = ("workers", "speed-up", "busy", "worker MiB")
"""Columns that an engine of one process has nothing to put in."""
FAILED, NOTHING = "failed", "Nothing is measured yet."


def scale_rows(results: ScaleResults) -> tuple[list[str], list[list[str]]]:
    """Titles and cells: a row for each case, by the axis along which it is not the base case."""
    rows = [_row(results, one) for case in results.plan.cases if (one := results.of(case))]
    left_out = () if results.plan.workers else OF_WORKERS
    shown = [title for title in (rows[0] if rows else ()) if title not in left_out]
    return shown, [[row[title] for title in shown] for row in rows]


def _row(results: ScaleResults, one: Measured) -> dict[str, str]:
    case = one.case
    grown = None
    if one.memory is not None and one.memory_before is not None:
        grown = one.memory - one.memory_before
    busy = [worker.busy for worker in one.workers]
    return {
        "": _varied(case, results),
        "population": whole(case.population),
        "cohort": whole(case.cohort),
        "workers": whole(case.workers),
        "model": case.model,
        "parameters": whole(one.parameters),
        "seconds": FAILED if one.problem else short(one.a_round),
        "clients/s": short(one.clients_a_second),
        "speed-up": short(results.speed_up(one)),
        "busy": per_cent(sum(busy) / len(busy)) if busy else MISSING,
        "driver MiB": mebibytes(one.memory),
        "rounds MiB": mebibytes(grown),
        "worker MiB": mebibytes(one.worker_memory),
    }


def scale_table(results: ScaleResults) -> Table:
    """For a terminal."""
    table = Table(box=SIMPLE_HEAD, padding=0, caption_justify="left")
    titles, rows = scale_rows(results)
    for title in titles:
        side: JustifyMethod = "left" if title in WORDS else "right"
        table.add_column(title, justify=side, no_wrap=" " not in title)
    for row in rows:
        table.add_row(*map(Text, row))  # a name in brackets is no markup
    table.caption = Text("\n".join(scale_notes(results)))
    return table


def scale_markdown(results: ScaleResults) -> str:
    titles, rows = scale_rows(results)
    table = markdown_table(titles, rows) if rows else NOTHING
    return "\n".join([table, "", *scale_notes(results)]) + "\n"


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Numbers to the right, as far as the titles tell which are."""
    edges = "|".join("---" if title in WORDS else "---:" for title in titles)
    lines = [f"| {' | '.join(titles)} |", f"|{edges}|"]
    lines += [f"| {' | '.join(map(_barred, row))} |" for row in rows]
    return "\n".join(lines)


def _barred(text: str) -> str:
    return text.replace("|", r"\|")


def scale_notes(results: ScaleResults) -> list[str]:
    """What must be said below every table: how, where, with what, and what went wrong."""
    plan = results.plan
    per = f"{plan.samples} sample{'s' * (plan.samples > 1)} each in batches of {plan.batch}"
    what = "one round" if plan.rounds == 1 else f"the median of {plan.rounds} rounds"
    first = "those in which workers got ready" if plan.workers else "the first"
    most = "; and of the worker that had the most" if plan.workers else ""
    notes = [
        f"{plan.algorithm} with the engine {plan.engine}, {per}; seconds: {what} after {first}.",
        f"MiB: the most resident, of the driver; of that, what came with its rounds{most}.",
        f"{made_by(results.made)}.",
    ]
    for one in results.cases:
        if one.problem is not None:
            notes.append(f"Failed, {described(plan, one.case)}: {one.problem}.")
    for model, problem in results.problems.items():
        notes.append(f"Failed, what methods send, keep and sum of {model}: {problem}.")
    return notes


def _varied(case: Case, results: ScaleResults) -> str:
    return ", ".join(case.differs(results.plan.base)) or "base"


def made_by(made: Made) -> str:
    """The machine, versions, commit and date, as far as they are known."""
    here, cluster = made.machine, ""
    if here.nodes:
        cluster = f"{here.nodes} node{'s' * (here.nodes > 1)} with {here.cpus} CPUs, driven from "
    parts = [
        cluster + here.processor,
        f"{here.cores} core{'s' * (here.cores != 1)}",
        f"{sized(here.memory)} of memory" if here.memory else "",
        *(f"{name} {number}" for name, number in made.versions.items()),
        f"commit {made.commit}" if made.commit else "",
        made.date,
    ]
    return ", ".join(part for part in parts if part)
