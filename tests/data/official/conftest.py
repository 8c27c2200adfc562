from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root of the test, empty."""
    monkeypatch.setenv("FEDFOR_DATA", str(tmp_path / "data"))
    return tmp_path / "data"
