"""Trackers that tests name by path. They work in processes of their own, so they tell by files."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfor.tracking import Round, Run


class Witness:
    """Writes down what it is told, beside the run."""

    def start(self, run: Run) -> Mapping[str, str] | None:
        self.path = run.folder / "witness.jsonl"
        about = {"name": run.name, "group": run.group, "first": run.first, "seed": run.seed}
        self._note("start", about | {"algorithm": run.algorithm, "kept": run.kept})
        return {"id": str(os.getpid())} if run.kept is None else None

    def log(self, rounds: Sequence[Round]) -> None:
        for done in rounds:
            self._note("round", {"number": done.number, "numbers": done.numbers})

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self._note("end", summary)

    def _note(self, what: str, about: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([what, about]) + "\n")


def witnessed(folder: Path, what: str) -> list[Any]:
    lines = (folder / "witness.jsonl").read_text().splitlines()
    return [about for kind, about in map(json.loads, lines) if kind == what]


class RaisesInStart(Witness):
    def start(self, run: Run) -> None:
        raise ValueError("no such server\nand more of it")


class RaisesInLog(Witness):
    def log(self, rounds: Sequence[Round]) -> None:
        raise KeyError("accuracy")


class RaisesInEnd(Witness):
    def end(self, summary: Mapping[str, Any] | None) -> None:
        raise OSError("disk full")


class Exits(Witness):
    def log(self, rounds: Sequence[Round]) -> None:
        sys.exit(3)


class IsInterrupted(Witness):
    def log(self, rounds: Sequence[Round]) -> None:
        raise KeyboardInterrupt


class Crashes(Witness):
    def log(self, rounds: Sequence[Round]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Leaves(Witness):
    """As if all were well."""

    def log(self, rounds: Sequence[Round]) -> None:
        os._exit(0)


class Prints(Witness):
    """On both channels, and waits for an answer at the prompt."""

    def log(self, rounds: Sequence[Round]) -> None:
        print("words on standard output", flush=True)
        try:
            input("Your key? ")
        except EOFError:
            super().log(rounds)


class HangsInLog(Witness):
    def log(self, rounds: Sequence[Round]) -> None:
        super().log(rounds)
        self._hang()

    def _hang(self) -> None:
        self._note("pid", os.getpid())
        while True:
            time.sleep(3600)


class HangsInStart(HangsInLog):
    def start(self, run: Run) -> None:
        super().start(run)
        self._hang()


class HangsInEnd(HangsInLog):
    def log(self, rounds: Sequence[Round]) -> None: ...

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self._hang()


class NoTracker:
    def start(self, run: Run) -> None: ...


def function() -> None: ...
