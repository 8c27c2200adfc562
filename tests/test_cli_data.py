"""fedfor data as people use it."""

from pathlib import Path

import pytest

from .conftest import Cli
from .data.official import tiny

pytestmark = [pytest.mark.fast, pytest.mark.processes]


@pytest.fixture
def fedfor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Cli:
    monkeypatch.setenv("FEDFOR_DATA", str(tmp_path))
    return Cli(capsys, monkeypatch)


def test_help(fedfor: Cli) -> None:
    code, out, _ = fedfor("data", "--help")
    assert code == 0
    for command in ("list", "get", "check", "path"):
        assert command in out
        assert fedfor("data", command, "--help")[0] == 0


def test_path(fedfor: Cli, tmp_path: Path) -> None:
    assert fedfor("data", "path") == (0, f"{tmp_path}\n", "")
    other = tmp_path / "other"
    assert fedfor("data", "path", "--data-root", other) == (0, f"{other}\n", "")


def test_list(fedfor: Cli, tmp_path: Path) -> None:
    tiny.mnist(tmp_path)
    tiny.office_caltech(tmp_path)
    tiny.svhn(tmp_path)
    (tmp_path / "svhn" / "test_32x32.mat").write_bytes(b"broken")
    code, out, _ = fedfor("data", "list")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "60,000 / 10,000" in rows["mnist"]
    assert "12 / 10" in rows["mnist"]
    assert "160 / 40" in rows["office-caltech"]
    assert "broken" in rows["svhn"]
    assert "non-commercial" in rows["svhn"]
    assert " no " in rows["cifar10"]
    assert "not svhn, usps, mnist-m" in rows["digits-five"]
    assert f"They are looked for in {tmp_path}" in out


def test_list_goes_on_after_an_odd_set(fedfor: Cli, tmp_path: Path) -> None:
    tiny.mnist_m(tmp_path)
    labels = tmp_path / "mnist_m" / "mnist_m_train_labels.txt"
    labels.unlink()
    labels.mkdir()
    code, out, err = fedfor("data", "list")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "broken" in rows["mnist-m"]
    assert "not mnist" in rows["digits-five"]


def test_list_goes_on_after_an_error_of_the_disk(
    fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedfor.data.official import sets

    def fails(root: Path) -> None:
        raise OSError(5, "Input/output error")

    tiny.mnist(tmp_path)
    monkeypatch.setitem(sets.SINGLE, "mnist", fails)
    code, out, _ = fedfor("data", "list")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "broken" in rows["mnist"]


def test_roots_that_cannot_be(fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = fedfor("data", "list", "--data-root", "")
    assert (code, out) == (2, "")
    assert err == "error: --data-root is empty; name a folder, or leave it out\n"
    file = tmp_path / "file"
    file.write_bytes(b"")
    for command in (("list",), ("check", "mnist"), ("get", "mnist"), ("path",)):
        code, _, err = fedfor("data", *command, "--data-root", file)
        assert code == 2
        assert err == (
            f"error: the data root {file} is no folder; name a folder with --data-root or "
            "FEDFOR_DATA\n"
        )
    monkeypatch.chdir(tmp_path)
    assert fedfor("data", "path", "--data-root", ".") == (0, f"{tmp_path}\n", "")


def test_list_tells_what_is_complete(
    fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from fedfor.data.official.catalogue import CATALOGUE

    for name in ("mnist", "svhn", "usps", "mnist-m"):
        getattr(tiny, name.replace("-", "_"))(tmp_path)
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], train=12, test=10))
    _, out, _ = fedfor("data", "list")
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "complete" in rows["mnist-m"]
    assert "in part" in rows["digits-five"]


def test_check(fedfor: Cli, tmp_path: Path) -> None:
    tiny.office_caltech(tmp_path)
    code, out, _ = fedfor("data", "check", "office-caltech")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["dslr", "40", "10", "3", "x", "256", "x", "256"] in rows
    assert "note: office-caltech, dslr: 50 of 157 images" in out
    assert "office-caltech can be read" in out


def test_check_reads_all(fedfor: Cli, tmp_path: Path) -> None:
    tiny.office_caltech(tmp_path)
    for path in sorted((tmp_path / "office_caltech_10" / "webcam" / "mug").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        code, out, err = fedfor("data", "check", "office-caltech")
        assert code == 2
        assert f"{path} is broken" in err
        assert err.count("\n") == 1
        assert "can be read" not in out
        path.write_bytes(whole)


def test_check_of_what_is_not_there(fedfor: Cli, tmp_path: Path) -> None:
    code, _, err = fedfor("data", "check", "cifar10")
    assert code == 2
    assert err == (
        f"error: cifar10: there is no {tmp_path / 'cifar-10-batches-bin'}; get it with 'fedfor "
        "data get cifar10', or name the folder that has it with --data-root or FEDFOR_DATA\n"
    )
    assert "did you mean 'usps'" in fedfor("data", "check", "upsp")[2]


def test_get_what_is_there_and_what_is_by_hand_only(fedfor: Cli, tmp_path: Path) -> None:
    tiny.usps(tmp_path)
    code, out, _ = fedfor("data", "get", "usps")
    assert code == 0
    assert f"{tmp_path / 'usps' / 'usps.t.bz2'} is there already" in out
    code, _, err = fedfor("data", "get", "synth-digits")
    assert code == 2
    assert f"put SynthDigits.zip into {tmp_path / 'synth_digits'}" in err


def test_get_downloads(fedfor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedfor.data.official.catalogue import CATALOGUE, Download, Entry

    from .data.official.server import serving

    with serving() as server:
        server.files["a.bin"] = b"1"
        items = (Download(f"{server.address}/a.bin", None),)
        monkeypatch.setitem(CATALOGUE, "mine", Entry("", "", downloads=items))
        code, out, _ = fedfor("data", "get", "mine", "--data-root", tmp_path / "new")
    assert code == 0
    assert "a.bin is there (not checked: the publisher gives no checksum)" in out
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"1"
