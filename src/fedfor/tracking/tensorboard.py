"""TensorBoard: event files in the run's folder, so that `tensorboard --logdir runs` finds all.

Written by TensorBoard's own writer, which needs no torch.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from .numbers import summary_numbers
from .protocol import Round, Run


class TensorBoard:
    def start(self, run: Run) -> None:
        self._writer = EventFileWriter(str(run.folder / "tensorboard"))
        self._last = run.first - 1
        if run.first == 1:
            about = {**run.settings, "group": run.group}
            self._add(Event(summary=hparams_pb(about)))
        else:  # what is there of these rounds was written just before a process died
            self._add(Event(step=run.first, session_log=SessionLog(status=SessionLog.START)))

    def log(self, rounds: Sequence[Round]) -> None:
        for done in rounds:
            self._add_numbers(done.number, done.numbers)
        self._writer.flush()
        self._last = rounds[-1].number

    def end(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None:
            self._add_numbers(self._last, summary_numbers(summary))
        self._writer.close()

    def _add_numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        values = [Summary.Value(tag=name, simple_value=n) for name, n in numbers.items()]
        self._add(Event(step=step, summary=Summary(value=values)))

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        self._writer.add_event(event)
