"""Reads the file that an offline run of W&B leaves: records of protobuf in LevelDB's log format."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER = 2**15, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:  # no header fits: the rest of the block is empty
            place += BLOCK - place % BLOCK
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


class OfflineRun:
    def __init__(self, path: Path) -> None:
        self.history: dict[int, dict[str, float]] = {}
        self.summary: dict[str, Any] = {}
        self.exit_code: int | None = None
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config = _values(record.run.config.update)
            elif kind == "history":
                self.history[record.history.step.num] = _values(record.history.item)
            elif kind == "summary":
                self.summary |= _values(record.summary.update)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def offline_runs(folder: Path) -> list[OfflineRun]:
    return [OfflineRun(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))]
