import errno
import gzip
import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

import pytest

from fedfor.data.official.catalogue import CATALOGUE, Download, Entry
from fedfor.data.official.check import check
from fedfor.data.official.get import get
from fedfor.errors import DataError

from . import tiny
from .server import Server, serving

pytestmark = [pytest.mark.fast, pytest.mark.processes]

Member = tuple[str, bytes]


def tar(*members: Member | tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as pressed,
        tarfile.open(fileobj=pressed, mode="w") as packed,
    ):
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


def zipped(*members: Member, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as packed:
        for name, body in members:
            # Not the time of now: the same members are the same bytes.
            packed.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return raw.getvalue()


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 0xFF]) + raw[middle + 1 :]


def damaged(raw: bytes) -> bytes:
    """The first bytes of what is packed in it, behind the head and the name."""
    return raw[:40] + bytes(20) + raw[60:]


NOISE = hashlib.shake_128(b"").digest(999)


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
    ids=["tar", "zip"],
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
    ids=["tar", "through a link", "link", "zip", "absolute", "backslashes"],
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
        ("a.zip", damaged(zipped(("set/one", NOISE), method=zipfile.ZIP_LZMA))),
        ("a.zip", damaged(zipped(("set/one", NOISE), method=zipfile.ZIP_BZIP2))),
        ("a.zip", zipped(("set", b"1"), ("set/one", b"2"))),
        ("a.zip", zipped(("set/one", b"1"), ("set", b"2"))),
        ("a.tar.gz", tar(("set", b"1"), ("set/one", b"2"))),
        ("a.tar.gz", tar(("set/one", b"1"), ("set", b"2"))),
        ("a.zip", zipped(("s" * 300, b"1"))),
    ],
    ids=[
        "tar cut off",
        "no tar",
        "zip cut off",
        "zip flipped",
        "lzma damaged",
        "bzip2 damaged",
        "zip, file then folder",
        "zip, folder then file",
        "tar, file then folder",
        "tar, folder then file",
        "long name",
    ],
)
def test_broken_archives_unpack_nothing(
    getting: Callable[..., Getter], root: Path, file: str, body: bytes
) -> None:
    with pytest.raises(DataError, match=f"{file} is broken .*; delete it and run 'fedfor data"):
        getting(file, body, makes=("set",))()
    assert [p.name for p in root.iterdir()] == [file]


def test_another_archive_and_something_in_the_way(
    getting: Callable[..., Getter], root: Path
) -> None:
    (root / "set").mkdir(parents=True)
    (root / "set" / "mine").write_bytes(b"")
    with pytest.raises(DataError, match="set is in the way of what"):
        getting("a.zip", zipped(("set/one", b"1")), makes=("set/one",))()
    (root / "set" / "mine").unlink()
    (root / "set").rmdir()
    with pytest.raises(DataError) as error:
        getting("a.zip", zipped(("set/one", b"1")), makes=("set/two",))()
    assert "a.zip has no set/two in it, so nothing of it was unpacked" in str(error.value)
    assert "another file: delete it and run 'fedfor data get x' again" in str(error.value)
    assert [path.name for path in root.iterdir()] == ["a.zip"]


def test_an_empty_folder_is_not_in_the_way(getting: Callable[..., Getter], root: Path) -> None:
    (root / "set").mkdir(parents=True)
    getting("a.zip", zipped(("set/one", b"1")), makes=("set",))()
    assert [str(p.relative_to(root)) for p in root.rglob("*")] == ["set", "set/one"]


def test_a_disk_that_cannot_be_written(getting: Callable[..., Getter], root: Path) -> None:
    root.mkdir()
    (root / "inner").write_bytes(b"")
    with pytest.raises(DataError) as error:
        getting("a.zip", zipped(("set/one", b"1")), folder="inner", makes=("inner/set",))()
    assert f"x: cannot read or write in {root} ([Errno " in str(error.value)
    assert "run 'fedfor data get x' again" in str(error.value)


def test_a_full_disk_is_not_a_broken_archive(
    getting: Callable[..., Getter], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(DataError, match=r"No space left on device.; see that there is room"):
        getting("a.zip", zipped(("set/one", b"1")), makes=("set",))()


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


@pytest.fixture
def whole_sets(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives of CIFAR-10, MNIST-M and a domain, where their publishers' would be."""
    made = tmp_path / "made"
    tiny.cifar10_binary(made)
    tiny.mnist_m(made)
    tiny.domainnet(made, images=1)
    for name in ("cifar10", "mnist-m", "domainnet"):
        entry = CATALOGUE[name]
        items = []
        for item in filter(lambda item: item.is_archive, entry.downloads):
            folder = made / item.makes[0]
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            base = made / item.folder
            members = [(str(path.relative_to(base)), path.read_bytes()) for path in files]
            pack = zipped if item.name.endswith(".zip") else tar
            server.files[item.name] = pack(*members)
            url = f"{server.address}/{item.name}"
            items.append(replace(item, url=url, file=item.name, checksum=None))
        monkeypatch.setitem(CATALOGUE, name, replace(entry, downloads=tuple(items)))


@pytest.mark.usefixtures("whole_sets")
@pytest.mark.parametrize(
    ("name", "folder", "file"),
    [
        ("cifar10", "cifar-10-batches-bin", "data_batch_3.bin"),
        ("mnist-m", "mnist_m", "mnist_m_test_labels.txt"),
        ("mnist-m", "mnist_m", "mnist_m_train/00000004.png"),
        ("domainnet", "DomainNet/quickdraw", "tiger/quickdraw_000000.png"),
    ],
)
def test_a_file_that_is_gone_can_be_got_again(
    root: Path, name: str, folder: str, file: str
) -> None:
    """What check advises, what get advises then, and the set is whole."""

    def run() -> None:
        get(name, root, lambda _: None, lambda *_: None)

    run()
    check(name, root)
    (root / folder / file).unlink()
    with pytest.raises(DataError) as error:
        check(name, root)
    assert f"{root / folder} is not complete: delete it and run" in str(error.value)
    with pytest.raises(DataError) as error:
        run()
    assert f"{name}: {root / folder} is not complete, there is no {root / folder}/" in str(
        error.value
    )
    assert f"; delete {root / folder} and run 'fedfor data get {name}' again" in str(error.value)
    shutil.rmtree(root / folder)
    run()
    check(name, root)


@pytest.mark.usefixtures("whole_sets")
def test_an_empty_folder_is_filled(root: Path) -> None:
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no .*data_batch_1.bin; get it with 'fedfor data get"):
        check("cifar10", root)
    get("cifar10", root, lambda _: None, lambda *_: None)
    check("cifar10", root)


def test_an_empty_folder_does_not_hide_the_other_version(root: Path) -> None:
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    tiny.cifar10_python(root)
    said: list[str] = []
    get("cifar10", root, said.append, lambda *_: None)
    assert said == [f"{root / 'cifar-10-batches-py'} is there already"]


def test_half_of_a_set_that_is_given_by_hand(root: Path) -> None:
    tiny.synth_digits(root)
    folder = root / "synth_digits"
    train, test = (folder / f"synth_{part}_32x32.mat" for part in ("train", "test"))
    whole = zipped(*((path.name, path.read_bytes()) for path in (train, test)))
    (folder / "SynthDigits.zip").write_bytes(zipped((train.name, train.read_bytes())))
    test.unlink()
    with pytest.raises(DataError, match=f"there is no {test}; delete {train} and run"):
        get("synth-digits", root, print, lambda *_: None)
    train.unlink()
    with pytest.raises(DataError, match=f"delete {train} and {folder / 'SynthDigits.zip'}, which"):
        get("synth-digits", root, print, lambda *_: None)
    train.unlink()
    (folder / "SynthDigits.zip").write_bytes(whole)
    get("synth-digits", root, print, lambda *_: None)
    check("synth-digits", root)


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
