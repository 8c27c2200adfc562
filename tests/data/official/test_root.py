import os
from pathlib import Path

import pytest

from fedfor.data.official import data_root, use_root
from fedfor.data.official import root as module


def test_the_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDFOR_DATA", "~/sets")
    assert data_root() == Path.home() / "sets"


@pytest.mark.parametrize(
    ("platform", "cache"),
    [
        ("linux", Path.home() / ".cache"),
        ("darwin", Path.home() / "Library" / "Caches"),
        ("win32", Path("local")),
    ],
)
def test_without_it_the_cache(monkeypatch: pytest.MonkeyPatch, platform: str, cache: Path) -> None:
    monkeypatch.delenv("FEDFOR_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", "local")
    monkeypatch.setattr(module.sys, "platform", platform)
    assert data_root() == cache / "fedfor" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "elsewhere")
    assert data_root() == Path("elsewhere/fedfor/data")


def test_use_root_is_seen_by_child_processes(tmp_path: Path) -> None:
    use_root(tmp_path / "other")
    assert data_root() == tmp_path / "other"
    assert os.environ["FEDFOR_DATA"] == str(tmp_path / "other")
    use_root(None)
    assert data_root() == tmp_path / "other"
