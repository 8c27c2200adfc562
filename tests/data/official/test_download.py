import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfor.data.official.catalogue import Download
from fedfor.data.official.download import BLOCK, fetch
from fedfor.errors import DataError

from .server import Server, serving

pytestmark = pytest.mark.processes

BODY = bytes(range(256)) * 4_000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.files["a.bin"] = BODY
        yield server


def item(server: Server, kind: str = "md5") -> Download:
    digest = hashlib.new(kind, BODY).hexdigest()
    return Download(f"{server.address}/a.bin", f"{kind}:{digest}", "folder")


def silent(name: str, done: int, total: int | None) -> None:
    pass


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_whole_file(server: Server, root: Path, kind: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    path = fetch("x", item(server, kind), root, lambda *words: told.append(words))
    assert path == root / "folder" / "a.bin"
    assert path.read_bytes() == BODY
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]
    assert told[-1] == ("a.bin", len(BODY), len(BODY))


def test_it_goes_on_where_it_broke_off(server: Server, root: Path) -> None:
    server.breaks_after = 300_000
    with pytest.raises(DataError) as error:
        fetch("x", item(server), root, silent)
    assert "a.bin broke off after 300,000 of 1,024,000 bytes; run 'fedfor data get x'" in str(
        error.value
    )
    assert (root / "folder" / "a.bin.part").stat().st_size == 300_000
    assert not (root / "folder" / "a.bin").exists()
    server.breaks_after = None
    assert fetch("x", item(server), root, silent).read_bytes() == BODY
    assert server.asked == [None, "bytes=300000-"]
    assert not (root / "folder" / "a.bin.part").exists()


def test_a_server_without_ranges_starts_over(server: Server, root: Path) -> None:
    server.knows_ranges = False
    part(root, BODY[:1000])
    assert fetch("x", item(server), root, silent).read_bytes() == BODY
    assert server.asked == ["bytes=1000-"]


def test_a_complete_part_is_checked_and_named(server: Server, root: Path) -> None:
    part(root, BODY)
    assert fetch("x", item(server), root, silent).read_bytes() == BODY


def test_a_part_that_is_too_long_is_fetched_again(server: Server, root: Path) -> None:
    part(root, BODY + b"more")
    assert fetch("x", item(server), root, silent).read_bytes() == BODY
    assert server.asked == [f"bytes={len(BODY) + 4}-", None]


@pytest.mark.parametrize("have", [0, 1000, len(BODY)])
def test_a_wrong_checksum_removes_the_file(server: Server, root: Path, have: int) -> None:
    part(root, b"x" * have)
    server.files["a.bin"] = b"x" * len(BODY)
    with pytest.raises(DataError) as error:
        fetch("x", item(server), root, silent)
    assert "has the checksum md5:" in str(error.value)
    assert "and was removed; run 'fedfor data get x' again" in str(error.value)
    assert list((root / "folder").iterdir()) == []


@pytest.mark.parametrize("length", ["untold", "chunked"])
def test_a_break_without_a_length_keeps_the_part(server: Server, root: Path, length: str) -> None:
    server.length, server.breaks_after = length, BLOCK
    with pytest.raises(DataError, match=r"a.bin broke off after 262,144 bytes; run 'fedfor data"):
        fetch("x", item(server), root, silent)
    assert (root / "folder" / "a.bin.part").read_bytes() == BODY[:BLOCK]
    server.breaks_after = None
    assert fetch("x", item(server), root, silent).read_bytes() == BODY
    assert server.asked == [None, "bytes=262144-"]


def test_a_break_shows_even_without_length_and_checksum(server: Server, root: Path) -> None:
    server.length, server.breaks_after = "chunked", BLOCK
    with pytest.raises(DataError, match="broke off after 262,144 bytes"):
        fetch("x", Download(f"{server.address}/a.bin", None), root, silent)
    assert not (root / "a.bin").exists()


def test_another_file_without_a_length_is_not_kept_for_ever(server: Server, root: Path) -> None:
    server.length = "untold"
    server.files["a.bin"] = b"x" * len(BODY)
    with pytest.raises(DataError, match="broke off after 1,024,000 bytes"):
        fetch("x", item(server), root, silent)
    with pytest.raises(DataError, match="and was removed"):
        fetch("x", item(server), root, silent)
    assert list((root / "folder").iterdir()) == []


@pytest.mark.parametrize("length", ["untold", "chunked"])
def test_a_whole_file_without_a_length(server: Server, root: Path, length: str) -> None:
    server.length = length
    assert fetch("x", item(server), root, silent).read_bytes() == BODY


def test_an_unknown_checksum_is_not_checked(server: Server, root: Path) -> None:
    path = fetch("x", Download(f"{server.address}/a.bin", None), root, silent)
    assert path.read_bytes() == BODY


def test_not_found(server: Server, root: Path) -> None:
    del server.files["a.bin"]
    with pytest.raises(DataError) as error:
        fetch("x", item(server), root, silent)
    assert f"{server.address}/a.bin answers 404 Not Found; get the file in another way" in str(
        error.value
    )
    assert f"put it at {root / 'folder' / 'a.bin'}" in str(error.value)
    assert not root.exists()


def test_nobody_answers(root: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/a.bin"
    with pytest.raises(DataError) as error:
        fetch("x", Download(url, None), root, silent)
    assert f"x: {url} cannot be reached ([Errno" in str(error.value)
    assert f"put it at {root / 'a.bin'} and run 'fedfor data get x' again" in str(error.value)


def test_no_such_host(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError, match="Name or service not known"):
        fetch("x", Download("http://nowhere.invalid/a.bin", None), root, silent)


def part(root: Path, raw: bytes) -> None:
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "a.bin.part").write_bytes(raw)
