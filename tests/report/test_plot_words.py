"""What cannot be drawn is said in one sentence."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

from .made import made_comparison, made_run
from .test_plot import RESULTS

pytestmark = pytest.mark.fast

Words = list[str]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    made_comparison(tmp_path / "c", ["fedavg", "fedfor,alpha=2"], seeds=1)
    made_run(tmp_path / "flower", flower=True)
    made_run(tmp_path / "diverged" / "a", seed=0, rounds=2, planned=5, diverged=True)
    made_run(tmp_path / "nothing" / "a", seed=0, rounds=0, planned=5, diverged=True)
    made_run(tmp_path / "begun" / "a", seed=0, rounds=0, planned=5, done=False)
    made_run(tmp_path / "going" / "a", seed=0, rounds=2, planned=5, done=False)
    made_run(tmp_path / "untested" / "a", accuracy=lambda t: None)
    made_run(tmp_path / "classes" / "a", rounds=2, extra=lambda t: {"classes": [0.5] * 100})
    for place, target in enumerate((0.5, 0.8)):
        made_run(tmp_path / "targets" / str(place), seed=place, target=target)
    (tmp_path / "empty").mkdir()
    (tmp_path / "results.json").write_bytes(RESULTS.read_bytes())
    return tmp_path


SENTENCES: dict[str, tuple[Words, str]] = {
    "figure": (["curve", "c"], "there is no figure 'curve'; did you mean 'curves'"),
    "place": (["curves", "none"], "there is no file or folder none"),
    "empty folder": (["curves", "empty"], "empty is empty; name a folder that"),
    "ending": (["curves", "c", "-o", "a.gif"], "-o a.gif: it must end in .pdf, .svg or .png"),
    "no ending": (["curves", "c", "-o", "a"], "-o a: it must end in .pdf, .svg or .png"),
    "no folder": (["curves", "c", "-o", "no/a.pdf"], "-o no/a.pdf: there is no folder"),
    "a file for a folder": (["curves", "c", "-o", "results.json/a.pdf"], "there is no folder"),
    "a folder for a file": (["curves", "c", "-o", "c.pdf"], "-o c.pdf: that is a folder"),
    "width": (["curves", "c", "--width", "wide"], "--width wide: it must be column (3.35 in), "),
    "narrow": (["curves", "c", "--width", "0.1"], "--width 0.1: it must be column"),
    "no width": (["curves", "c", "--width", "nan"], "--width nan: it must be column"),
    "height": (["curves", "c", "--height", "99"], "--height 99: it must be inches from 0.5 to 50"),
    "low": (["curves", "c", "--height", "0.6"], "--height 0.6: that leaves no room for what"),
    "metric": (["curves", "c", "--metric", "lost"], "--metric lost: there is no such curve; did"),
    "axis": (["curves", "c", "--x", "byte"], "--x byte: there is no such axis; did you mean 'byt"),
    "best": (["curves", "c", "--metric", "loss", "--best"], "--best is of the accuracy; leave it"),
    "not for it": (
        ["bytes", "c", "--log-y"],
        "--log-y is for curves, state, parts, not for bytes; leave it out",
    ),
    "method": (["curves", "c", "-m", "fedfro"], "--methods fedfro: there is none; did you mean"),
    "point": (["curves", "results.json", "--point", "E=9"], "--point E=9: there is none; "),
    "no points": (["curves", "c", "--point", "E=1"], "--point: these runs are of no study"),
    "per cent": (["target", "c", "--target", "80"], "--target 80: it is a fraction above 0, at m"),
    "no number": (["target", "c", "--target", "nan"], "--target nan: it is a fraction above 0"),
    "no target": (["target", "c"], "these runs have no target of their own; say which with"),
    "targets": (["target", "targets"], "these runs have the targets 0.5, 0.8; say which with"),
    "classes": (["parts", "c"], "no run here tells its accuracy by domain or class; runs that"),
    "clients": (["cohort", "c"], "no run here tells the classes of its clients; runs that"),
    "agreement": (["agreement", "c"], "no run here tells how its clients' updates agree; runs"),
    "on Flower": (["cohort", "flower"], "federations on Flower record only what clients send"),
    "results": (["state", "results.json"], "a file of results has accuracies alone; name the f"),
    "bytes of results": (["curves", "results.json", "--x", "bytes"], "no run here tells its byt"),
    "points of parts": (["parts", "results.json"], "of several points (E=1, E=2, E=4, E=8, E=16)"),
    "all diverged": (["bytes", "diverged"], "all of these runs diverged, so there is nothing"),
    "at once": (["curves", "nothing"], "all of these runs diverged in their first round, so"),
    "not yet": (["curves", "begun"], "none of these runs has done a round yet, so there is not"),
    "not ended": (["bytes", "going"], "none of these runs has ended, and sums of bytes are of"),
    "untested": (["curves", "untested"], "no run here tells its accuracy; no round of th"),
    "too many": (["parts", "classes"], "these runs have 100 classes, more than the 24 that fit"),
    "part": (["parts", "classes", "--parts", "cat"], "--parts cat: there is none; "),
    "no state": (["state", "c", "--log-y"], "--log-y: no method here keeps state on clients"),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_a_mistake_gets_one_sentence(runs: Path, fedfor: Cli, case: str) -> None:
    words, sentence = SENTENCES[case]
    (runs / "c.pdf").mkdir()
    code, out, err = fedfor("plot", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(runs.glob("*.pdf/*"))


def test_a_file_that_cannot_be_written(
    runs: Path, fedfor: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fedfor.report.plots.save.write_atomically", refuse)
    code, _, err = fedfor("plot", "curves", "c")
    assert (code, err) == (2, "error: -o curves.pdf: it cannot be written (Permission denied)\n")


def test_without_matplotlib(runs: Path, fedfor: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = fedfor("plot", "curves", "c")
    assert (code, err) == (2, "error: pictures need matplotlib: pip install 'fedfor[report]'\n")


def test_numbers_that_are_none_or_infinite_are_passed_over(tmp_path: Path, fedfor: Cli) -> None:
    path = made_run(tmp_path / "run", rounds=3)
    lines = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    for line, value in zip(lines, ("high", float("inf"), 0.5), strict=True):
        line["accuracy"] = value
    (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "summary.json").unlink()
    assert fedfor("plot", "curves", "run")[0] == 0
