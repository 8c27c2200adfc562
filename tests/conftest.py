import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fedfor import cli
from fedfor.data import DataSplit, LabelledData

torch.set_num_threads(1)


def made_data(
    samples: int = 60, classes: int = 3, shape: tuple[int, ...] = (1, 8, 8), seed: int = 0
) -> DataSplit:
    """Small random images whose mean tells the class, so that there is something to learn."""
    g = torch.Generator().manual_seed(seed)

    def part(name: str, n: int) -> LabelledData:
        y = torch.arange(n) % classes
        x = torch.randn(n, *shape, generator=g) + y.view(-1, *(1 for _ in shape))
        return LabelledData(name, x, y, classes)

    return DataSplit(part("made (train)", samples), part("made (test)", 30))


@pytest.fixture
def split() -> DataSplit:
    return made_data()


def trace(folder: Path, *devices: dict[str, Any]) -> Path:
    """A file of devices that are not always there."""
    path = folder / "devices.jsonl"
    path.write_text("".join(json.dumps(device) + "\n" for device in devices))
    return path


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self.monkeypatch.setattr(sys, "argv", ["fedfor", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def fedfor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys, monkeypatch)
