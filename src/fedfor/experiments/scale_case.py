"""One case of `fedfor scale`: a run whose rounds are timed, in a process of its own."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import FedforError
from ..memory import peak_bytes
from .folder import RunFolder
from .load import load_config
from .own_process import answer
from .run import run_in_folder, start_run
from .simulation import Record

PATIENCE = 180.0
"""Seconds that a cluster has to start all workers."""

SETTLED = 10.0
"""Seconds of rounds with all workers, after which whoever had no slice will have none."""


class _Enough(Exception):  # noqa: N818
    """All rounds that were asked for are done."""


def do_case(asked: dict[str, Any], path: Path) -> dict[str, Any]:
    """How long each round took, what its workers did, and what memory this process had."""
    config, workers, rounds = load_config(asked["config"]), asked["workers"], asked["rounds"]
    folder = RunFolder(path / "run")
    start_run(folder, config)
    before, began = peak_bytes(), time.monotonic()
    records: list[Record] = []

    def stop_in_time(record: Record) -> None:
        records.append(record)
        # The last round of a run is tested too, which takes time of its own: it is not begun.
        if len(counted(records, workers)) == rounds:
            raise _Enough
        there = len(record.get("workers", ()))
        if workers is not None and there < workers and time.monotonic() - began > PATIENCE:
            raise FedforError(f"{there} of {workers} workers were there after {PATIENCE:g} s")

    with suppress(_Enough):
        run_in_folder(folder, stop_in_time)
    some = counted(records, workers)
    return {
        "seconds": [record["seconds"] for record in some],
        "workers": [record.get("workers", []) for record in some],
        "memory_before": before,
        "memory": peak_bytes(),
    }


def counted(records: Sequence[Record], workers: int | None) -> Sequence[Record]:
    """The rounds after the first, or after those that it took until all workers had done a slice.

    In their first one they fetch data and trace steps. Of small cohorts some never get any.
    """
    if workers is None:
        return records[1:]
    ready, waited = set[int](), 0.0
    for place, record in enumerate(records, 1):
        there = record["workers"]
        ready |= {about["worker"] for about in there if about["clients"]}
        if len(there) >= workers:
            waited += record["seconds"]
            if waited > SETTLED or ready.issuperset(about["worker"] for about in there):
                return records[place:]
    return []


if __name__ == "__main__":
    answer(do_case)
