"""The app that comes with the project, and the one that `fedfor new-app` writes."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import fedfor.flower.new_app
from fedfor.data import by_domain, digit_domains
from fedfor.experiments.folder import RunFolder

from ..conftest import Cli
from ..processes import wait_until, with_variable
from .processes import Federation

DIGITS = Path(__file__).parents[2] / "apps/digits"


def test_the_digits_app_is_what_new_app_writes(tmp_path: Path) -> None:
    written = fedfor.flower.new_app.write_app(tmp_path / "digits")
    assert {p.relative_to(tmp_path / "digits") for p in written} == {
        p.relative_to(DIGITS) for p in DIGITS.rglob("*") if p.is_file() and p.suffix != ".pyc"
    }
    for path in written:
        assert path.read_text() == (DIGITS / path.relative_to(tmp_path / "digits")).read_text()


def test_new_app_names_things_after_the_folder(fedfor: Cli, tmp_path: Path) -> None:
    code, out, _ = fedfor("new-app", tmp_path / "My Hospital 2")
    assert code == 0
    assert "my_hospital_2/task.py" in out
    text = (tmp_path / "My Hospital 2/pyproject.toml").read_text()
    assert 'name = "my-hospital-2"' in text
    assert 'clientapp = "my_hospital_2.client_app:app"' in text
    assert "@" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("123", "begins with a letter"),
        ("class", "makes no Python package"),
        ("été", "makes no Python package"),
        ("full", "not empty"),
        ("fedfor", "would hide the Python package"),
        ("torch", "would hide the Python package"),
        ("json", "would hide the Python package"),
    ],
)
def test_new_app_refuses(name: str, words: str, fedfor: Cli, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("")
    code, _, err = fedfor("new-app", tmp_path / name)
    assert code == 2
    assert words in err
    assert (tmp_path / "full" / "mine.txt").exists()


def rss(pid: int) -> int:
    """Nothing, once the process has ended."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_hundred_simulated_nodes_in_steady_memory(tmp_path: Path) -> None:
    """Ten of a hundred nodes in each of 20 rounds; the server's memory at the end is within 10 %
    of that after the fifth. The nodes' processes are Ray's, not ours."""
    memory: dict[int, int] = {}
    with Federation(tmp_path / "f", simulation=True) as federation:
        run = federation.run(
            DIGITS,
            "--federation-config",
            "num-supernodes=100",
            folder=tmp_path / "run",
            rounds=20,
            nodes=10,
            fraction=0.1,
        )
        folder = RunFolder(tmp_path / "run")

        def over() -> bool:
            pids = with_variable("FLWR_HOME", str(federation.home), "flwr-simulation")
            if pids and (done := len(folder.records())) and (held := rss(pids[0])):
                memory[done] = held
            return folder.summary_path.exists()

        wait_until(over, "the summary of the run", federation.processes["link"])
        run.finish()
    records = folder.records()
    assert [r["clients"] for r in records] == [10] * 20
    early, late = min(n for n in memory if n >= 5), max(memory)
    assert late >= early + 5, memory
    assert memory[late] <= 1.1 * memory[early], memory
    # One domain a node: with ten nodes a round, several have the same, so scores have no names.
    assert records[-1]["accuracy"] > 0.3
    assert by_domain(digit_domains()).size == 5
