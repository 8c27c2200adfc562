"""The view for terminals: it fits, and names are shown as text whatever is in them."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from fedfor.experiments.folder import RunFolder
from fedfor.watch import follow, terminal
from fedfor.watch.follow import Follower
from fedfor.watch.sparks import bar
from fedfor.watch.terminal import show, view
from fedfor.watch.words import clean

from ..report.made import flower_extra, made_comparison, made_record, made_run

pytestmark = pytest.mark.fast

ODD = (
    "[red]fedavg[/red]",
    "<script>alert(1)</script>",
    "🐢 turtle 👩‍🔬 \u202e reversed",
    "x\x1b[2J\x1b]0;title\x07y\nz",
    "long " * 60,
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("LOOK_EVERY", "SEARCH_EVERY", "REST"):
        monkeypatch.setattr(follow, pause, 0.0)
    monkeypatch.setattr(terminal, "EVERY", 0.0)


def drawn(path: Path, width: int, height: int, ascii_only: bool = False) -> list[str]:
    follower = Follower(path)
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    console.print(view(follower.look(), follower.runs, width, height, ascii_only))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def words(line: str) -> str:
    return " ".join(line.split())


def odd_runs(path: Path, **more: Any) -> Path:
    for place, name in enumerate(ODD):
        made_run(path / f"run-{place}", algorithm=name, seed=place, planned=9, done=False, **more)
    return path


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(("width", "height"), [(120, 50), (80, 24), (59, 15), (40, 12), (40, 9)])
def test_it_fits_and_shows_odd_names_as_text(
    tmp_path: Path, width: int, height: int, ascii_only: bool
) -> None:
    lines = drawn(odd_runs(tmp_path), width, height, ascii_only)
    assert len(lines) < height
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\r"}
    assert "25 of 45 rounds" in lines[1]
    shown = [line for line in lines if "5/9" in line]
    assert shown
    assert shown[0].startswith("[red]fedavg[")
    if len(shown) < len(ODD):
        assert f"and {len(ODD) - len(shown)} more: {len(ODD) - len(shown)} running" in text


def test_all_that_is_known_of_a_run_is_in_its_line(tmp_path: Path) -> None:
    path = made_run(
        tmp_path / "r",
        algorithm="fedfor",
        seed=7,
        rounds=4,
        planned=8,
        done=False,
        flower=True,
        extra=flower_extra,
    )
    lines = drawn(path, 80, 24)
    assert lines[0] == "━" * 40 + "┄" * 40
    assert lines[1] == "4 of 8 rounds, about 4 s left. The run goes on."
    assert words(lines[2]) == "run seed round acc, % s/round left failed state"
    assert words(lines[3]) == "fedfor 7 4/8 ━━━━┄┄┄┄ 80.0 1 4 s 1 running"
    assert lines[4] == "accuracy, 50.0 to 80.0 %, to round 4"
    assert words(lines[5]) == "fedfor ▁▅▇█ 80.0"
    assert lines[6] == "fedfor, seed 7: round 2, node 7: it sent NaN"
    narrow = drawn(path, 40, 24)
    assert words(narrow[3]) == "run seed round % state"
    assert words(narrow[4]) == "fedfor 7 4/8 80.0 running"


def test_what_somebody_should_see_comes_first_where_not_all_fit(tmp_path: Path) -> None:
    path = made_comparison(tmp_path / "c", ["a", "b"], seeds=10, rounds=3)
    going = path / "runs" / "b" / "seed-9"
    (going / "summary.json").unlink()
    lines = drawn(path, 80, 12)
    assert "running" in lines[3]
    assert lines[4].rstrip().endswith(" done")
    assert any(line.startswith("and 1") and line.endswith("done") for line in lines)
    assert any("▁" in line for line in lines)


def test_nothing_yet_is_said_in_a_sentence(tmp_path: Path) -> None:
    lines = drawn(tmp_path / "x", 40, 10)
    assert " ".join(" ".join(lines).split()).startswith("There is no folder")
    made_run(tmp_path / "r", rounds=0, planned=5, done=False)
    assert "0/5" in "\n".join(drawn(tmp_path / "r", 40, 10))


def test_where_there_is_no_terminal_it_prints_lines_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made_run(tmp_path / "r", rounds=1, planned=40, done=False)
    steps = iter(range(2, 42))

    def pause(_: float) -> None:
        if (t := next(steps)) <= 40:
            rejected = [{"node": "5", "why": "[b]late[/b]"}] if t == 7 else []
            RunFolder(path).append({**made_record(t, t / 50), "rejected": rejected})
        else:
            RunFolder(path).finish({"rounds": 40}, None)

    monkeypatch.setattr("time.sleep", pause)
    console = Console(width=120, file=io.StringIO())
    show(Follower(path), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0].startswith("1 of 40 rounds, about 39 s left. The run goes on.")
    assert "fedavg, seed 0: round 7, node 5: [b]late[/b]" in lines
    assert lines[-1] == "40 of 40 rounds. The run has ended."
    assert 15 <= len(lines) <= 25


def test_on_a_terminal_the_last_view_stays_when_all_have_ended(tmp_path: Path) -> None:
    path = made_comparison(tmp_path / "c", rounds=3)
    file = io.StringIO()
    show(Follower(path), Console(width=80, height=24, file=file, force_terminal=True))
    last = file.getvalue().rpartition("\x1b[?1049l")[2]  # back from the other screen
    assert "All 4 runs have ended." in last
    assert "fedfor" in last


def test_a_bar_is_full_only_when_all_is_done() -> None:
    assert bar(0, 9, 4) == "┄┄┄┄"
    assert bar(8, 9, 4) == "━━━┄"
    assert bar(9, 9, 4, ascii_only=True) == "####"
    assert bar(3, 0, 4) == bar(12, 9, 4) == "━━━━"


def test_names_cannot_steer_a_terminal() -> None:
    assert clean("a\x1b[31mb\tc\u202ed\u200de 🐢 é") == "a�[31mb�cde 🐢 é"
