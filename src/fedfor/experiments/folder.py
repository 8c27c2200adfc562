"""A run is a folder: config, one line of JSON a round, checkpoints, summary."""

import hashlib
import json
import math
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from .. import __version__
from ..errors import FolderError
from ..tensors import Extras, Tensors, flatten, separate, unflatten
from .config import RunConfig
from .load import load_config, read_toml
from .simulation import Record

KEPT_CHECKPOINTS = 2

FLOWER = "flower"
"""A table in config.toml that only federations on Flower have."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.toml"
        self.rounds_path = path / "rounds.jsonl"
        self.summary_path = path / "summary.json"
        self.model_path = path / "model.safetensors"
        self.clients_path = path / "clients"
        self.checkpoints_path = path / "checkpoints"

    # Config

    def create(self, config: RunConfig) -> None:
        """Make the folder for a new run. One that holds anything is refused."""
        if occupied(self.path):
            raise FolderError(self._occupied())
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(_plain(config))

    def write_config(self, tables: dict[str, Any]) -> None:
        # Alone a run that can be resumed, so there is no moment at which it could not.
        write_atomically(self.config_path, tomli_w.dumps(tables).encode())

    def write_environment(self, device: str, about: dict[str, object]) -> None:
        environment = {
            "fedfor": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "platform": platform.platform(),
            "device": device_name(device),
            **about,
        }
        write_json(self.path / "environment.json", environment)

    def _occupied(self) -> str:
        if not self.config_path.is_file():
            return f"{self.path} is not empty and holds no run; choose another folder with --out"
        done, of = len(self.records()), self.config().rounds
        name = self.config().algorithm["name"]
        what = f"another run ({name}, seed {self.config().seed}, {done} of {of} rounds)"
        go_on = f", or go on with 'fedfor resume {self.path}'" if done < of else ""
        return f"{self.path} holds {what}; choose another folder with --out{go_on}"

    def config(self) -> RunConfig:
        if not self.config_path.is_file():
            raise FolderError(f"{self.path} is no run folder: it has no config.toml")
        tables = read_toml(str(self.config_path))
        if FLOWER in tables:
            raise FolderError(
                f"{self.path} holds a federation on Flower; to go on, start its app again with "
                "this folder"
            )
        return load_config(tables, source=str(self.config_path))

    # Records

    def records(self) -> list[Record]:
        """The rounds done, up to the first line that is damaged or cut short."""
        return whole_records(self.rounds_path.read_bytes()) if self.rounds_path.is_file() else []

    def append(self, record: Record) -> None:
        with self.rounds_path.open("ab") as file:
            file.write(_json_line(record))

    def keep_records(self, count: int) -> list[Record]:
        """Drop the lines of rounds that no checkpoint holds: they are about to be done again."""
        records = self.records()
        if len(records) < count:
            raise FolderError(
                f"{self.rounds_path} is damaged after round {len(records)}, while the checkpoint "
                f"is of round {count}: the records of rounds {len(records) + 1} to {count} are "
                "lost; run anew into another folder"
            )
        if self.rounds_path.is_file():
            lines = b"".join(_json_line(r) for r in records[:count])
            write_atomically(self.rounds_path, lines)
        return records[:count]

    # Checkpoints

    def save_checkpoint(self, round_: int, state: Extras, about: dict[str, Any]) -> int:
        """Write a checkpoint; returns the oldest round that is still kept."""
        final = self.checkpoints_path / f"{round_:06d}"
        temporary = self.checkpoints_path / f".{round_:06d}.{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        tensors = temporary / "state.safetensors"
        save_file(separate(flatten(state)), tensors)
        facts = {"round": round_, "sha256": sha256(tensors), **about}
        write_json(temporary / "state.json", facts)
        if final.exists():  # the damaged one that a resume passed over
            shutil.rmtree(final)
        temporary.rename(final)
        *old, _ = rounds = self.checkpoint_rounds()
        for stale in rounds[:-KEPT_CHECKPOINTS]:
            shutil.rmtree(self.checkpoints_path / f"{stale:06d}")
        return old[-1] if old else round_

    def checkpoint_rounds(self) -> list[int]:
        return sorted(
            int(folder.name) for folder in self.checkpoints_path.glob("*") if folder.name.isdigit()
        )

    def load_checkpoint(self) -> "Checkpoint":
        """The newest checkpoint that is whole; round 0 where there was none yet."""
        damage: list[str] = []
        for round_ in reversed(self.checkpoint_rounds()):
            folder = self.checkpoints_path / f"{round_:06d}"
            try:
                return _read_checkpoint(folder, round_, damage)
            except (OSError, TypeError, ValueError, KeyError, SafetensorError) as error:
                damage.append(f"checkpoint {folder} is damaged ({error}) and was passed over")
        if damage:
            raise FolderError(
                f"{self.path} cannot be resumed: {damage[0]}, and there is no other; the results "
                f"of rounds 1 to {len(self.records())} are still in {self.rounds_path.name}, the "
                "model is lost: run anew into another folder"
            )
        return Checkpoint(0, {}, {})

    # The end

    def finish(self, summary: dict[str, Any], model: Tensors | None) -> None:
        if model is not None:
            temporary = self.path / f".model.{os.getpid()}"
            save_file(separate(model), temporary)
            temporary.replace(self.model_path)
            summary = {**summary, "model_sha256": sha256(self.model_path)}
        write_json(self.summary_path, summary)

    def summary(self) -> dict[str, Any] | None:
        """The summary of a run that has ended."""
        try:
            summary: dict[str, Any] = json.loads(self.summary_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return summary


@dataclass(frozen=True)
class Checkpoint:
    round: int
    state: Extras
    about: dict[str, Any]
    damage: tuple[str, ...] = ()
    """Words about newer ones that were passed over."""


def _read_checkpoint(folder: Path, round_: int, damage: Iterable[str]) -> Checkpoint:
    about = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    tensors = folder / "state.safetensors"
    if about["round"] != round_ or sha256(tensors) != about["sha256"]:
        raise ValueError("its tensors are not those that were written")
    return Checkpoint(round_, unflatten(load_file(tensors)), about, tuple(damage))


def occupied(path: Path) -> bool:
    """Whether something is there that must not be written into. Hidden files do not count."""
    if not path.is_dir():
        return path.exists()
    return any(not entry.name.startswith(".") for entry in path.iterdir())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process may work in a folder. The system lifts the lock when that one dies."""
    lock = FileLock(path / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise FolderError(f"{path} is in use by another process; wait for it") from error
    try:
        yield
    finally:
        lock.release()


def whole_records(content: bytes, done: int = 0) -> list[Record]:
    """What lines say of the rounds after these, up to the first that is damaged or cut short."""
    records: list[Record] = []
    for line in content.splitlines(keepends=True):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        whole = isinstance(record, dict) and line.endswith(b"\n")
        if not whole or record.get("round") != done + len(records) + 1 or "seconds" not in record:
            break
        records.append(record)
    return records


def _plain(config: RunConfig) -> dict[str, Any]:
    """As TOML can say it: without None, a setting that is not there."""
    dumped: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    return dumped


def device_name(device: str) -> str:
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        return torch.cuda.get_device_name()
    return f"cpu ({platform.machine()})"


def _json_line(record: Record) -> bytes:
    return (json.dumps(_finite(record), allow_nan=False) + "\n").encode()


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not a finite number becomes null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(_finite(value), indent=2) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Under a temporary name first, so that the file is always whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
