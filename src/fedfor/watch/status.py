"""How runs stand, in numbers and in words."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..report.loading import LoadedRun
from ..report.sound import number
from .growing import Growing
from .pace import Pace, left_of_all, rounds_left, trained_together

ENDED = ("done", "diverged", "failed")
STATES = ("running", "quiet", "failed", "diverged", "waiting", "done")
"""Of a run; those that somebody should see first."""


@dataclass(frozen=True)
class RunStatus:
    name: str
    point: str
    seed: int
    folder: str
    """Below the folder that is watched."""
    state: str
    round: int
    of: int
    accuracy: float | None
    seconds_a_round: float | None
    left: float | None
    failed: int
    """Replies of clients that could not be used, in all rounds."""
    last_failure: str


@dataclass(frozen=True)
class Status:
    state: str
    """running, ended, quiet, gone (what was read is kept), or waiting for a first run."""
    words: str
    """What the numbers do not say."""
    runs: tuple[RunStatus, ...] = ()
    left: float | None = None
    rounds_done: int = 0
    rounds_planned: int = 0


def status_of(
    growing: Sequence[Growing], names: Mapping[Path, str], top: Path, now: float
) -> Status:
    """Of runs that are all there."""
    found = [(one, one.run) for one in growing if one.run is not None]
    together = sum(run.summary is None and trained_together(run) for _, run in found)
    paces = [Pace(one, max(1, together) if trained_together(run) else 1) for one, run in found]
    states = [_state(one, run, pace, now) for (one, run), pace in zip(found, paces, strict=True)]
    each = [(run, pace) for (_, run), pace in zip(found, paces, strict=True)]
    going = [both for both, state in zip(each, states, strict=True) if state == "running"]
    unended = [both for both, state in zip(each, states, strict=True) if state not in ENDED]
    left = left_of_all(unended, going)
    runs = tuple(
        RunStatus(
            names.get(run.path, run.label),
            run.point,
            run.seed,
            "" if run.path == top else str(run.path.relative_to(top)),
            state,
            len(run.records),
            run.planned,
            _accuracy(run),
            pace.seconds,
            rounds_left(run) * pace.seconds if state == "running" and pace.seconds else None,
            *_failures(one, run, state),
        )
        for (one, run), pace, state in zip(found, paces, states, strict=True)
    )
    since = max((one.since for one, _ in found), default=now)
    patience = max((pace.patience for pace in paces), default=0.0)
    state = _state_of_all(states, idle=now - since > patience)
    return Status(
        state,
        _words(state, runs, since, found, top),
        runs,
        left,
        sum(run.round for run in runs),
        sum(run.round if run.state in ENDED else max(run.of, run.round) for run in runs),
    )


def _state(one: Growing, run: LoadedRun, pace: Pace, now: float) -> str:
    if run.summary is not None:
        return run.state
    if one.error:
        return "failed"
    if not one.begun:
        return "waiting"
    return "quiet" if now - one.since > pace.patience else "running"


def _state_of_all(states: Sequence[str], idle: bool) -> str:
    if "running" in states:
        return "running"
    if all(state in ENDED for state in states):
        return "ended"
    # What waits is taken up soon after something else has ended, if anybody is there to do it.
    return "quiet" if idle or "waiting" not in states else "running"


def _accuracy(run: LoadedRun) -> float | None:
    found = (number(record, "accuracy") for record in reversed(run.records))
    return next((a for a in found if a is not None), None)


def _failures(one: Growing, run: LoadedRun, state: str) -> tuple[int, str]:
    """How many replies were rejected, and what went wrong last."""
    count, last = 0, ""
    for record in run.records:
        rejected = record.get("rejected")
        for reply in rejected if isinstance(rejected, list) else ():
            if isinstance(reply, Mapping):
                count += 1
                last = f"round {record['round']}, node {reply.get('node')}: {reply.get('why')}"
        attempts = record.get("attempts")
        if isinstance(attempts, int) and attempts > 1:
            last = f"{last}; " if last.startswith(f"round {record['round']},") else ""
            last += f"round {record['round']} took {attempts} attempts"
    if state == "failed":
        return count, one.error
    if state == "diverged" and run.summary is not None:
        return count, str(run.summary["diverged"])
    return count, last


def _words(
    state: str,
    runs: Sequence[RunStatus],
    since: float,
    found: Sequence[tuple[Growing, LoadedRun]],
    top: Path,
) -> str:
    count = Counter(run.state for run in runs)
    ended = sum(count[s] for s in ENDED)
    if state == "ended":
        who = "The run has" if len(runs) == 1 else f"All {len(runs)} runs have"
        return f"{who} ended{_bad(count, len(runs))}."
    if state == "quiet":
        what = "the run" if len(runs) == 1 else "what ran here"
        which = next(
            (both for both, run in zip(found, runs, strict=True) if run.state not in ENDED),
            found[0],
        )
        return (
            f"No new round since {at(since)}, much longer than rounds take here: {what} may have "
            f"been stopped. {_go_on(*which, top)}"
        )
    if len(runs) == 1:
        return "The run goes on." if runs[0].round else "Its first round is not done yet."
    slow = f"; {count['quiet']} had no new round for long" if count["quiet"] else ""
    return f"{ended} of {len(runs)} runs have ended{_bad(count, len(runs))}{slow}."


def _bad(count: Counter[str], runs: int) -> str:
    told = [f"{'it' if runs == 1 else count[s]} {s}" for s in ("diverged", "failed") if count[s]]
    return f" ({', '.join(told)})" if told else ""


def _go_on(one: Growing, run: LoadedRun, top: Path) -> str:
    if run.on_flower:
        return f"To go on, start its app again with the folder {run.path}."
    if one.command:
        return f"To go on: {one.command}"
    above = [run.path, *run.path.parents]
    inside = [path for path in above if path.is_relative_to(top)]
    whole = next((path for path in inside if (path / "compare.toml").is_file()), run.path)
    return f"To go on: fedfor resume {shlex.quote(str(whole))}"


def at(moment: float) -> str:
    """A time of day; with the date, if that is another."""
    then = datetime.fromtimestamp(moment)
    today = then.date() == datetime.now().date()
    return f"{then:%H:%M:%S}" if today else f"{then:%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """45 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
