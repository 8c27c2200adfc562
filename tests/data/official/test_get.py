import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

import pytest

from fedfor.data.official.catalogue import CATALOGUE, Download, Entry
from fedfor.data.official.get import get
from fedfor.errors import DataError

from .server import Server, serving

Member = tuple[str, bytes]


def tar(*members: Member | tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as packed:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                packed.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                packed.addfile(info, io.BytesIO(member[1]))
    return raw.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def zipped(*members: Member) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, body in members:
            packed.writestr(name, body)
    return raw.getvalue()


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 0xFF]) + raw[middle + 1 :]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


Getter = Callable[[], list[str]]


@pytest.fixture
def getting(server: Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Getter]:
    def entry(file: str, body: bytes, **changes: object) -> Getter:
        server.files[file] = body
        checksum = f"md5:{hashlib.md5(body).hexdigest()}"
        item = Download(f"{server.address}/{file}", checksum)
        downloads = (replace(item, **changes),)  # type: ignore[arg-type]
        monkeypatch.setitem(CATALOGUE, "x", Entry("", "", downloads=downloads))

        def run() -> list[str]:
            said: list[str] = []
            get("x", root, said.append, lambda *_: None)
            return said

        return run

    return entry


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("a.tar.gz", tar(("set/one.bin", b"1"), ("set/two.bin", b"2"))),
        ("a.zip", zipped(("set/one.bin", b"1"), ("set/two.bin", b"2"), ("__MACOSX/x", b""))),
    ],
)
def test_archives_are_unpacked(
    getting: Callable[..., Getter], root: Path, file: str, body: bytes
) -> None:
    run = getting(file, body, folder="inner", makes=("inner/set",))
    assert run() == [f"{root / 'inner' / 'set'} is there"]
    assert sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()) == [
        "inner/set/one.bin",
        "inner/set/two.bin",
    ]
    assert run() == [f"{root / 'inner' / 'set'} is there already"]


def test_files_stay_as_they_are(getting: Callable[..., Getter], root: Path) -> None:
    run = getting("a.gz", b"packed", folder="raw", makes=("raw/a.gz", "raw/a"))
    run()
    assert (root / "raw" / "a.gz").read_bytes() == b"packed"
    (root / "raw" / "a.gz").rename(root / "raw" / "a")
    assert run() == [f"{root / 'raw' / 'a'} is there already"]


def test_no_checksum_is_told(getting: Callable[..., Getter]) -> None:
    said = getting("a.bin", b"1", checksum=None)()
    assert said[0].endswith("a.bin is there (not checked: the publisher gives no checksum)")


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("a.tar.gz", tar(("set/one", b"1"), ("../evil", b"2"))),
        ("a.tar.gz", tar(("set/one", b"1"), link("set/evil", "/etc"), ("set/evil/x", b"2"))),
        ("a.tar.gz", tar(("set/one", b"1"), link("set/evil", "../../.."))),
        ("a.zip", zipped(("set/one", b"1"), ("../evil", b"2"))),
        ("a.zip", zipped(("set/one", b"1"), ("/tmp/evil", b"2"))),
        ("a.zip", zipped(("set/one", b"1"), ("set\\..\\..\\evil", b"2"))),
    ],
)
def test_evil_members_unpack_nothing(
    getting: Callable[..., Getter], root: Path, file: str, body: bytes
) -> None:
    run = getting(file, body, makes=("set",))
    with pytest.raises(DataError, match=r"would write outside its folder \(.*evil.*\), so nothing"):
        run()
    assert [p.name for p in root.iterdir()] == [file]
    assert not (root.parent / "evil").exists()


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("a.tar.gz", tar(("set/one", bytes(range(256)) * 99))[:-40]),
        ("a.tar.gz", b"<html>"),
        ("a.zip", zipped(("set/one", b"1"))[:-9]),
        ("a.zip", flipped(zipped(("set/one", bytes(range(256)) * 99)))),
    ],
)
def test_broken_archives_unpack_nothing(
    getting: Callable[..., Getter], root: Path, file: str, body: bytes
) -> None:
    with pytest.raises(DataError, match=f"{file} is broken"):
        getting(file, body, makes=("set",))()
    assert [p.name for p in root.iterdir()] == [file]


def test_another_archive_and_something_in_the_way(
    getting: Callable[..., Getter], root: Path
) -> None:
    (root / "set").mkdir(parents=True)
    with pytest.raises(DataError, match="set is in the way of what"):
        getting("a.zip", zipped(("set/one", b"1")), makes=("set/two",))()
    (root / "set").rmdir()
    with pytest.raises(DataError, match="has no set/two in it; it is another file"):
        getting("a.zip", zipped(("set/one", b"1")), makes=("set/two",))()


def test_what_was_put_there_by_hand_is_checked_and_kept(
    getting: Callable[..., Getter], server: Server, root: Path
) -> None:
    body = zipped(("set/one", b"1"))
    run = getting("a.zip", body, makes=("set",))
    root.mkdir()
    (root / "a.zip").write_bytes(b"another")
    with pytest.raises(DataError, match=r"a.zip has the checksum md5:.*; put the right file there"):
        run()
    (root / "a.zip").write_bytes(body)
    run()
    assert (root / "set" / "one").read_bytes() == b"1"
    assert (root / "a.zip").exists()
    assert server.asked == []


def test_by_hand_only(getting: Callable[..., Getter], server: Server, root: Path) -> None:
    run = getting("a.zip", zipped(("one", b"1")), folder="set", makes=("set/one",), by_hand=True)
    with pytest.raises(DataError) as error:
        run()
    assert f"open {server.address}/a.zip in a browser, put a.zip into {root / 'set'}" in str(
        error.value
    )
    (root / "set").mkdir(parents=True)
    (root / "set" / "a.zip").write_bytes(server.files["a.zip"])
    run()
    assert (root / "set" / "one").read_bytes() == b"1"
    assert server.asked == []


def test_sets_of_parts_get_their_parts(
    getting: Callable[..., Getter], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    getting("a.bin", b"1")
    hand = Download("https://example.org/b", None, file="b.zip", makes=("b",), by_hand=True)
    monkeypatch.setitem(CATALOGUE, "hand", Entry("", "", downloads=(hand,)))
    monkeypatch.setitem(CATALOGUE, "both", Entry("", "", parts=("hand", "x")))
    said: list[str] = []
    get("both", root, said.append, lambda *_: None)
    assert "open https://example.org/b in a browser" in said[0]
    assert said[0].endswith("until then digits that are rendered here stand in for it")
    assert said[1] == f"{root / 'a.bin'} is there"


def test_an_unknown_name(root: Path) -> None:
    with pytest.raises(DataError, match="there is no data set 'svnh'; did you mean 'svhn'"):
        get("svnh", root, print, lambda *_: None)


def test_the_catalogue_is_sound() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.downloads or set(entry.parts) <= set(CATALOGUE), name
        for item in entry.downloads:
            assert urlparse(item.url).scheme in ("http", "https")
            kind, _, digest = (item.checksum or "md5:" + "0" * 32).partition(":")
            assert len(digest) == 2 * hashlib.new(kind).digest_size
            assert item.checksum is not None or item.by_hand
