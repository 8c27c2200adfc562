"""The same for people on a terminal: how all runs stand, drawn with characters."""

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..report.loading import LoadedRun
from .follow import Follower
from .sparks import bar, sparks
from .status import STATES, RunStatus, Status, duration
from .words import clean

EVERY = 1.0
MIDDLE, WIDE = 60, 80
"""Columns of a terminal from which more is shown of each run."""
MOST_FAILURES = 3
STEPS = 20
"""Lines that are printed in all where there is no terminal, about."""

COLOURS = {"running": "green", "done": "cyan", "ended": "cyan", "waiting": "dim"}
BAD = "yellow"


def show(follower: Follower, console: Console) -> None:
    """Until all runs have ended."""
    if not console.is_terminal or console.is_dumb_terminal:
        _show_lines(follower, console)
        return
    status = follower.look()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while status.state != "ended":
                live.update(_view(follower, status, console), refresh=True)
                time.sleep(EVERY)
                status = follower.look()
    finally:  # the screen is as before: leave there what was seen last
        console.print(_view(follower, status, console))


def _view(follower: Follower, status: Status, console: Console) -> Group:
    width, height = console.size
    return view(status, follower.runs, width, height, console.options.ascii_only)


def _show_lines(follower: Follower, console: Console) -> None:
    """A line at the beginning and the end, when something happens, and now and then."""
    told: object = None
    failures: set[tuple[str, str]] = set()
    while True:
        status = follower.look()
        step = STEPS * status.rounds_done // max(1, status.rounds_planned)
        if (status.state, step) != told:
            told = status.state, step
            _line(console, f"{_rounds(status)}{status.words}")
        for run in status.runs:
            if run.last_failure and (run.folder, run.last_failure) not in failures:
                failures.add((run.folder, run.last_failure))
                _line(console, _failure(run))
        if status.state == "ended":
            return
        time.sleep(EVERY)


def _line(console: Console, text: str) -> None:
    console.print(clean(text), soft_wrap=True, markup=False, highlight=False, emoji=False)


def view(
    status: Status, runs: Sequence[LoadedRun], width: int, height: int, ascii_only: bool = False
) -> Group:
    """All of it, in no more than this many columns and lines, if there is room for the least."""
    head = _head(status, width, ascii_only)
    troubled = [run for run in status.runs if run.last_failure]
    failures = troubled[-min(MOST_FAILURES, max(1, height // 8)) :]
    curves = sparks(runs, width, ascii_only)
    room = height - 1 - len(head) - len(failures) - 1  # a line for the cursor, one for the titles
    shown = min(len(status.runs), max(1, room - min(len(curves), room // 2)))
    shown -= shown < len(status.runs) and shown > 1  # a line says what is left out
    curves = curves[: max(0, room - shown - (shown < len(status.runs)))]
    return Group(
        *head,
        *([_table(status.runs, shown, width, ascii_only)] if status.runs else []),
        *_rest(status.runs, shown),
        *(curves if len(curves) > 1 else ()),
        *(_text(_failure(run), BAD) for run in failures),
    )


def _head(status: Status, width: int, ascii_only: bool) -> list[RenderableType]:
    colour = COLOURS.get(status.state, BAD)
    if not status.runs:
        return [_text(status.words, colour, wrapped=True)]
    words = Text(clean(f"{_rounds(status)}{status.words}"), style=colour)
    done = bar(status.rounds_done, status.rounds_planned, width, ascii_only)
    return [Text(done, style=colour), *words.wrap(Console(width=width), width)]


def _rounds(status: Status) -> str:
    if not status.runs:
        return ""
    left = "" if status.left is None else f", about {duration(status.left)} left"
    return f"{status.rounds_done} of {status.rounds_planned} rounds{left}. "


def _table(runs: Sequence[RunStatus], shown: int, width: int, ascii_only: bool) -> Table:
    chosen = list(runs)
    if shown < len(runs):
        chosen = sorted(runs, key=lambda run: STATES.index(run.state))[:shown]
    failing = any(run.failed for run in runs) and width >= MIDDLE
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), width=width, header_style="dim")
    table.add_column("run", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("seed", justify="right", no_wrap=True)
    table.add_column("round", justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column("", width=8)
    table.add_column("acc, %" if width >= MIDDLE else "%", justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column("s/round", justify="right", no_wrap=True)
    if width >= MIDDLE:
        table.add_column("left", justify="right", no_wrap=True)
    if failing:
        table.add_column("failed", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for run in chosen:
        table.add_row(*_row(run, width, failing, ascii_only))
    return table


def _row(run: RunStatus, width: int, failing: bool, ascii_only: bool) -> list[RenderableType]:
    accuracy = "-" if run.accuracy is None else f"{100 * run.accuracy:.1f}"
    pace = "-" if run.seconds_a_round is None else f"{run.seconds_a_round:.3g}"
    left = "-" if run.left is None else duration(run.left)
    return [
        _text(_name(run)),
        Text(str(run.seed)),
        Text(f"{run.round}/{run.of}"),
        *([Text(bar(run.round, run.of, 8, ascii_only))] if width >= WIDE else []),
        Text(accuracy),
        *([Text(pace)] if width >= WIDE else []),
        *([Text(left)] if width >= MIDDLE else []),
        *([Text(str(run.failed))] if failing else []),
        Text(run.state, style=COLOURS.get(run.state, BAD)),
    ]


def _rest(runs: Sequence[RunStatus], shown: int) -> list[RenderableType]:
    if shown >= len(runs):
        return []
    left_out = sorted(runs, key=lambda run: STATES.index(run.state))[shown:]
    count = Counter(run.state for run in left_out)
    told = ", ".join(f"{count[state]} {state}" for state in STATES if count[state])
    return [_text(f"and {len(left_out)} more: {told}", "dim")]


def _name(run: RunStatus) -> str:
    return ", ".join(filter(None, (run.point, run.name)))


def _failure(run: RunStatus) -> str:
    many = f" ({run.failed} in all)" if run.failed > 1 else ""
    return f"{_name(run)}, seed {run.seed}: {run.last_failure}{many}"


def _text(text: str, style: str = "", wrapped: bool = False) -> Text:
    if wrapped:
        return Text(clean(text), style=style)
    return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis")
