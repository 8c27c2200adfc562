import os
from pathlib import Path

import pytest

from fedfor.data.official import data_root, use_root
from fedfor.data.official import root as module
from fedfor.errors import DataError

pytestmark = pytest.mark.fast


def test_the_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDFOR_DATA", "~/sets")
    assert data_root() == Path.home() / "sets"


@pytest.mark.parametrize("told", ["", "  "])
def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("FEDFOR_DATA", told)
    monkeypatch.setenv("XDG_CACHE_HOME", "elsewhere")
    assert data_root() == Path("elsewhere/fedfor/data")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("{}/file", "file is no folder; name a folder with --data-root or FEDFOR_DATA"),
        ("{}/" + "x" * 300, "cannot be used .*; name another folder"),
        ("~nobody-of-this-name/x", "is in the home of somebody who is not known here"),
    ],
)
def test_what_cannot_be_a_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, words: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FEDFOR_DATA", told.format(tmp_path))
    with pytest.raises(DataError, match=words):
        data_root()


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
