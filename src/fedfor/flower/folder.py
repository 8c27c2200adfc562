"""The folder of a federation: the same records and checkpoints as a simulated run's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flwr
from flwr.supercore import log

from ..algorithms import settings
from ..errors import FolderError
from ..experiments.folder import FLOWER, Checkpoint, RunFolder, locked, occupied
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
        self._wrappers: list[Any] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one ServerApp may work in a folder."""
        try:
            self.folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(f"{self.folder.path} cannot be made a folder ({error})") from error
        with locked(self.folder.path):
            yield

    def open(self, strategy: "Strategy", wrappers: Sequence[Any], rounds: int) -> None:
        """Begin, or load what is there into the strategy, and the clipping norms of wrappers."""
        self._wrappers = [w for w in wrappers if hasattr(w, "clipping_norm")]
        path, now = self.folder.path, _settings(strategy)
        about = {FLOWER: {"rounds": rounds, "version": flwr.__version__}}
        if not self.folder.config_path.is_file():
            if occupied(path):
                raise FolderError(f"{path} is not empty and holds no federation; choose another")
            self.folder.write_config(about | now)
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
        self.folder.write_config(about | now)
        self._load(strategy, checkpoint)
        self.folder.summary_path.unlink(missing_ok=True)

    def _load(self, strategy: "Strategy", checkpoint: Checkpoint) -> None:
        done, about = checkpoint.round, checkpoint.about
        if (recorded := len(self.folder.records())) > done:
            log(WARNING, "Rounds %d to %d have no checkpoint: again", done + 1, recorded)
        strategy.records[:] = self.folder.keep_records(done)
        if not done:
            return
        norms = about.get("clipping_norms", [])
        if not isinstance(about.get("population"), int) or len(norms) != len(self._wrappers):
            raise FolderError(
                f"the checkpoint of round {done} in {self.folder.path} is of another strategy, or "
                "of one with other wrappers; start with those, or into another folder"
            )
        strategy.go_on(done, checkpoint.state, about["population"])
        for wrapper, norm in zip(self._wrappers, norms, strict=True):
            wrapper.clipping_norm = norm
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
            norms = [float(w.clipping_norm) for w in self._wrappers]
            about = {"population": strategy.server.population, "clipping_norms": norms}
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
    given = {} if strategy.population is None else {"population": strategy.population}
    return given | {
        "seed": strategy.seed,
        "algorithm": {
            "label": strategy.algorithm.label,
            "client": as_text(strategy.algorithm),
            "server": {"class": type(server).__name__, **settings(server)},
            "weighting": strategy.algorithm.weighting,
        },
        "model": {n: [str(t.dtype), *t.shape] for n, t in strategy.server.model.items()},
    }
