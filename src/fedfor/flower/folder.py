"""The folder of a federation: the same records and checkpoints as a simulated run's."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flwr
from flwr.supercore import log

from ..errors import FolderError
from ..experiments.folder import FLOWER, RunFolder, locked, occupied
from ..experiments.load import read_toml
from ..experiments.metrics import summarise
from .account import Record
from .wire import as_text

if TYPE_CHECKING:
    from .strategy import Strategy


class Journal:
    """Writes down a federation round by round, and goes on with one that was interrupted."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one ServerApp may work in a folder."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with locked(self.folder.path):
            yield

    def open(self, strategy: "Strategy", rounds: int) -> None:
        """Begin, or load what is there into the strategy."""
        path, now = self.folder.path, _settings(strategy)
        if not self.folder.config_path.is_file():
            if occupied(path):
                raise FolderError(f"{path} is not empty and holds no federation; choose another")
            about = {"rounds": rounds, "version": flwr.__version__}
            self.folder.write_config({FLOWER: about, **now})
            self.folder.write_environment("cpu", {"flwr": flwr.__version__, "engine": "flower"})
            return
        before = read_toml(str(self.folder.config_path))
        for key, value in now.items():
            if before.get(key) != value:
                raise FolderError(
                    f"{path} holds a federation with another {key}; give the strategy the one it "
                    "had, or another folder"
                )
        checkpoint = self.folder.load_checkpoint()
        for sentence in checkpoint.damage:
            log(WARNING, "%s", sentence)
        if checkpoint.round > rounds:
            raise FolderError(
                f"{path} has {checkpoint.round} rounds already, more than the {rounds} asked for"
            )
        strategy.records[:] = self.folder.keep_records(checkpoint.round)
        if checkpoint.round:
            strategy.go_on(checkpoint.round, checkpoint.state, int(checkpoint.about["population"]))
            self._warn_of_lost_state(strategy)
        self.folder.summary_path.unlink(missing_ok=True)

    def _warn_of_lost_state(self, strategy: "Strategy") -> None:
        if not strategy.algorithm.stateless:
            log(
                WARNING,
                "%s keeps state on its clients, in Flower's Context, which ends with a run: "
                "clients start without it, so this will not be what the unbroken run would be",
                strategy.algorithm.label,
            )
        log(INFO, "Resumed from %s", self.folder.path)

    def round_done(self, strategy: "Strategy", record: Record, last: bool) -> None:
        self.folder.append(record)
        t = int(record["round"])
        if last or t % strategy.checkpoint_every == 0:
            about = {"population": strategy.server.population}
            self.folder.save_checkpoint(t, strategy.server.state(), about)

    def finish(self, strategy: "Strategy", rounds: int) -> None:
        records = strategy.records
        summary = {
            "algorithm": strategy.algorithm.label,
            "seed": strategy.seed,
            **summarise(records, rounds, max(1, rounds // 2), None),
            "seconds": round(sum(r["seconds"] for r in records), 3),
            "rejected": sum(len(r["rejected"]) for r in records),
        }
        self.folder.finish(summary, strategy.server.model)


def _settings(strategy: "Strategy") -> dict[str, Any]:
    """What must be the same when a federation goes on."""
    server = strategy.algorithm.server
    shapes = {name: list(t.shape) for name, t in strategy.server.model.items()}
    return {
        "algorithm": {
            "label": strategy.algorithm.label,
            "client": as_text(strategy.algorithm),
            "server": f"{type(server).__name__} {server!r}",
            "weighting": strategy.algorithm.weighting,
        },
        "model": shapes,
    }
