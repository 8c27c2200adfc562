"""The process in which one tracker works.

What fails, hangs or prints there cannot reach the run, which does not even wait for it to read.
"""

import os
import signal
import sys
import threading
from typing import Any, TextIO

from ..importing import told
from .following import Followed
from .names import tracker_class
from .tracking import DONE

EVERY = 0.5
"""Seconds between two looks at the folders."""


def work(job: dict[str, Any]) -> None:
    """Follow runs until told that nothing more will come, or until whoever could tell is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the run, which then tells us
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what libraries print is no answer
    orders, sys.stdin = sys.stdin, open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    over = threading.Event()
    threading.Thread(target=_await_end, args=(orders, over, job["patience"]), daemon=True).start()
    try:
        make = tracker_class(job["tracker"])
        runs = [Followed(about, job["tracker"], make) for about in job["runs"]]
        _follow(runs, over)
        print(DONE, file=answers, flush=True)
    except BaseException as error:  # SystemExit as well: it has no business to end in silence
        print(told(error), file=answers, flush=True)
        os._exit(1)  # and wait for nobody's hooks and threads


def _follow(runs: list[Followed], over: threading.Event) -> None:
    while True:
        last = over.is_set()
        for run in runs:
            run.advance(last)
        if last:
            return
        runs = [run for run in runs if not run.is_over]
        over.wait(EVERY)


def _await_end(orders: TextIO, over: threading.Event, patience: float) -> None:
    """Any line, or none because the process of the run is gone, which could not end us later."""
    orders.readline()
    over.set()
    threading.Event().wait(patience)
    os._exit(1)
