"""`fedfor scale` measures, goes on where it stopped, and tells what went wrong."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedfor.errors import FedforError
from fedfor.experiments import scale, scale_case
from fedfor.experiments.folder import RunFolder, locked
from fedfor.experiments.scale_case import SETTLED, counted, do_case
from fedfor.experiments.scale_plan import Case
from fedfor.experiments.scale_results import load_scale

from ..conftest import Cli
from ..processes import HANG
from ..report.made_scale import made_cost, made_plan, made_results

SMALL = [
    "scale", "--engine", "serial", "--populations", "1000,100", "--cohorts", "4,2", "--models",
    "linear,mlp", "--rounds", "2", "--samples", "4", "--batch", "4", "--out", "s",
]  # fmt: skip
FILES = {"scale.json", "table.md", "scale.svg", "scale.png", "deployment.md"}

pytestmark = pytest.mark.xdist_group("scale")  # its real run is done once


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run of the command, not to be changed."""
    folder = tmp_path_factory.mktemp("scale")
    subprocess.run(
        [sys.executable, "-m", "fedfor", *SMALL],
        cwd=folder,
        env={**os.environ, "COMMIT": "made", "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=HANG,
    )
    return folder / "s"


@pytest.fixture
def again(measured: Path, fedfor: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command in a folder with a copy of that."""
    shutil.copytree(measured, "s")
    monkeypatch.setenv("COMMIT", "made")
    return fedfor


Asked = list[dict[str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What processes were asked for. None is started: answers are made up."""
    asked: Asked = []
    fake(monkeypatch, asked, lambda case: {})
    monkeypatch.setenv("COMMIT", "made")
    return asked


def fake(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, answer: Callable[[Any], dict[str, Any]]
) -> None:
    """`answer` may give other words to what is asked, a problem for one."""

    def ask(module: str, what: dict[str, Any], limit: float) -> dict[str, Any]:
        asked.append({"module": module, "limit": limit, **what})
        if other := answer(asked[-1]):
            return other
        if module == scale.COSTS:
            return {"costs": [made_cost(model=what["model"], parameters=5).model_dump()]}
        told = {"busy": 0.5, "clients": 4, "memory": 2**30, "worker": 0}
        rounds = what["rounds"]
        workers = [[told] * what["workers"]] * rounds if what["workers"] else [[]] * rounds
        return {"seconds": [0.5] * rounds, "workers": workers, "memory": 9, "memory_before": 4}

    monkeypatch.setattr(scale, "ask", ask)


def without(number: int) -> None:
    """Take one case from what is there."""
    path = Path("s/scale.json")
    content = json.loads(path.read_text())
    del content["cases"][number]
    path.write_text(json.dumps(content))


# A real run


def test_a_run_writes_figures_table_and_page(measured: Path) -> None:
    assert {path.name for path in measured.iterdir() if not path.name.startswith(".")} == FILES
    results = load_scale(measured)
    assert results.plan.populations == (100, 1000)
    assert [one.case for one in results.cases] == results.plan.cases
    assert len(results.cases) == 4
    for one in results.cases:
        assert one.problem is None
        assert len(one.seconds) == 2
        assert min(one.seconds) > 0
        assert one.memory is not None
        assert one.memory_before is not None
        assert one.memory >= one.memory_before > 50 * 2**20  # Python and torch alone are more
        assert one.workers == ()
    assert {one.case.model: one.parameters for one in results.cases} == {"linear": 650, "mlp": 8970}
    assert {(cost.model, cost.model_bytes) for cost in results.costs} == {
        ("linear", 2_600), ("mlp", 35_880),
    }  # fmt: skip
    assert (results.made.command, results.made.commit) == (" ".join(["fedfor", *SMALL]), "made")
    assert results.failed == 0


def test_the_same_command_measures_nothing_anew(again: Cli, asked: Asked) -> None:
    before = Path("s/scale.json").read_bytes()
    code, out, err = again(*SMALL)
    assert (code, err, asked) == (0, "", [])
    assert "Everything is in s." in out
    assert Path("s/scale.json").read_bytes() == before


def test_only_what_is_missing_is_measured(again: Cli, asked: Asked) -> None:
    before = load_scale(Path("s"))
    without(2)
    code, out, _ = again(*SMALL)
    assert code == 0
    assert [(one["module"], one["config"]["population"]["cohort"]) for one in asked] == [
        (scale.CASE, 4)
    ]
    assert "cohort 4: 500 ms a round" in out
    after = load_scale(Path("s"))
    assert len(after.cases) == 4
    assert after.costs == before.costs
    kept = [one for one in before.cases if one.case.cohort == 2]
    assert [one for one in after.cases if one.case.cohort == 2] == kept


@pytest.mark.parametrize(
    "words", ["--cohorts 2,4,8", "--rounds 1", "--samples 5", "--algorithm fedavg"]
)
def test_another_plan_does_not_go_into_the_same_folder(
    again: Cli, asked: Asked, words: str
) -> None:
    before = Path("s/scale.json").read_bytes()
    code, _, err = again(*SMALL, *words.split())
    assert (code, asked) == (2, [])
    assert err == "error: s holds the figures of another plan; choose another with --out\n"
    assert Path("s/scale.json").read_bytes() == before


def test_another_commit_does_not_go_into_the_same_table(
    again: Cli, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMIT", "other")
    code, _, err = again(*SMALL)
    assert (code, asked) == (2, [])
    assert "s was begun with another commit, and figures of both do not belong in" in err


def test_what_is_there_is_printed_and_written_again(again: Cli, measured: Path) -> None:
    for source in ("s", "s/scale.json"):
        code, out, err = again("scale", "--from", source)
        assert (code, out, err) == (0, (measured / "table.md").read_text(), "")
    page = again("scale", "--from", "s", "--page", "deployment")[1]
    _, rest = (measured / "deployment.md").read_text().split("\n\n", 1)
    assert page == rest.replace("\n## ", "\n### ")
    code, out, _ = again("scale", "--from", "s", "--out", "a/b")
    assert (code, out) == (0, "Everything is in a/b.\n")
    for name in FILES - {"scale.json"}:
        assert (Path("a/b") / name).read_bytes() == (measured / name).read_bytes()


# With answers that are made up


def test_each_case_is_asked_for_once_and_kept_at_once(
    fedfor: Cli, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = []

    def look(what: Any) -> dict[str, Any]:
        there.append(len(load_scale(Path("s")).cases))
        return {}

    fake(monkeypatch, asked, look)
    assert fedfor(*SMALL, "--limit", "7")[0] == 0
    assert there == [0, 1, 2, 3, 4, 4]
    assert {one["limit"] for one in asked} == {7}
    assert [one["model"] for one in asked[4:]] == ["linear", "mlp"]
    assert {path.name for path in Path("s").iterdir() if path.name[0] != "."} == FILES


def test_workers_are_told_over_the_counted_rounds() -> None:
    told = [
        [{"worker": 0, "busy": 0.5, "clients": 3, "memory": 10}, {"worker": 1, "busy": 0.2,
         "clients": 1, "memory": 70}],
        [{"worker": 0, "busy": 0.7, "clients": 2, "memory": 30}, {"worker": 1, "busy": 0.4,
         "clients": 2, "memory": 50}],
    ]  # fmt: skip
    first, second = scale._workers(told)
    assert (first.busy, first.clients, first.memory) == (pytest.approx(0.6), 5, 30)
    assert (second.busy, second.clients, second.memory) == (pytest.approx(0.3), 3, 70)


def test_a_case_that_fails_does_not_stop_the_others_and_is_tried_again(
    fedfor: Cli, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "RuntimeError: no [/b] luck [red] (net.py:3)"

    def failing(what: dict[str, Any]) -> dict[str, Any]:
        fails = what["module"] == scale.CASE and what["config"]["model"]["name"] == "mlp"
        return {"problem": why} if fails else {}

    fake(monkeypatch, asked, failing)
    code, out, err = fedfor(*SMALL)
    assert code == 2
    assert err == ("error: 1 of 6 measurements failed, see above; mend it and repeat the command\n")
    assert f"model mlp: {why}" in out
    assert [one.problem for one in load_scale(Path("s")).cases] == [None, None, None, why]
    assert {path.name for path in Path("s").iterdir() if path.name[0] != "."} == FILES
    asked.clear()
    fake(monkeypatch, asked, lambda what: {})
    assert fedfor(*SMALL)[0] == 0
    assert [one["config"]["model"]["name"] for one in asked] == ["mlp"]
    assert load_scale(Path("s")).failed == 0


def test_where_all_fails_there_is_a_table_that_says_so(
    fedfor: Cli, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, asked, lambda what: {"problem": "it took longer than 1 s"})
    code, out, err = fedfor(*SMALL)
    assert code == 2
    assert "6 of 6 measurements failed" in err
    assert "no deployment.md, as no model's costs could be taken; no figure" in out
    assert {path.name for path in Path("s").iterdir() if path.name[0] != "."} == {
        "scale.json", "table.md",
    }  # fmt: skip
    assert load_scale(Path("s")).problems == {
        "linear": "it took longer than 1 s",
        "mlp": "it took longer than 1 s",
    }
    code, _, err = fedfor("scale", "--from", "s", "--page", "deployment")
    assert (code, err.count("\n")) == (2, 1)
    asked.clear()
    fake(monkeypatch, asked, lambda what: {})
    assert fedfor(*SMALL)[0] == 0
    assert len(asked) == 6
    assert load_scale(Path("s")).problems == {}


def test_what_was_measured_before_ctrl_c_is_kept(
    fedfor: Cli, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(what: dict[str, Any]) -> dict[str, Any]:
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {}

    fake(monkeypatch, asked, stop)
    code, _, err = fedfor(*SMALL)
    assert code == 130
    assert (
        err.strip() == f"stopped; what was measured is kept, go on with: fedfor {' '.join(SMALL)}"
    )
    assert len(load_scale(Path("s")).cases) == 2
    assert fedfor(*SMALL)[0] == 0
    assert len(asked) == 3 + 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Invalid JSON"),
        (b"{", "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[" * 100_000, "Invalid JSON"),
        (b"[]", "object"),
        (b"{}", "Field required"),
        (b'{"results": []}', "Field required"),
    ],
)
def test_a_foreign_or_damaged_file_gets_a_sentence(
    fedfor: Cli, asked: Asked, content: bytes, words: str
) -> None:
    Path("s").mkdir()
    Path("s/scale.json").write_bytes(content)
    for command in (SMALL, ["scale", "--from", "s"], ["scale", "--from", "s/scale.json"]):
        code, _, err = fedfor(*command)
        assert (code, asked) == (2, [])
        assert "s/scale.json holds no results of 'fedfor scale'" in err
        assert words in err
        assert err.count("\n") == 1
    assert Path("s/scale.json").read_bytes() == content


def test_a_folder_with_something_else_or_in_use_is_refused(fedfor: Cli, asked: Asked) -> None:
    Path("s").mkdir()
    Path("s/thesis.txt").touch()
    code, _, err = fedfor(*SMALL)
    assert (code, err) == (2, "error: s is not empty; choose another folder with --out\n")
    Path("s/thesis.txt").unlink()
    with locked(Path("s")):
        code, _, err = fedfor(*SMALL)
    assert (code, err) == (2, "error: s is in use by another process; wait for it\n")
    assert asked == []


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    plan = made_plan()
    results = made_results(plan, failed=[plan.cases[2]], costs=[made_cost()])
    results.problems["cnn"] = "it took longer than 1 s"
    results.save(tmp_path / "scale.json")
    assert load_scale(tmp_path) == results
    lines = (tmp_path / "scale.json").read_text().splitlines()
    assert sum('"case"' in line for line in lines) == len(plan.cases)  # a line for each
    assert results.failed == 2


def test_the_speed_up_is_over_one_worker() -> None:
    plan = made_plan()
    results = made_results(plan)
    alone, two = (results.of(case) for case in plan.along("workers")[:2])
    assert alone is not None
    assert two is not None
    assert alone.a_round is not None
    assert two.a_round is not None
    assert results.speed_up(two) == pytest.approx(alone.a_round / two.a_round)
    assert results.speed_up(alone) == 1
    cohort = results.of(plan.along("cohort")[0])
    assert cohort is not None
    assert results.speed_up(cohort) is None  # of this work, one worker was not measured
    assert alone.clients_a_second == pytest.approx(100 / alone.a_round)


# A case


def test_a_case_is_timed_without_its_first_round(tmp_path: Path) -> None:
    plan = made_plan(workers=(), engine="serial", models=("linear",), cohorts=(2,), samples=4)
    case = Case(population=10**10, cohort=2, workers=None, model="linear")
    found = do_case({"config": plan.config(case), "workers": None, "rounds": 2}, tmp_path)
    lines = (tmp_path / "run/rounds.jsonl").read_text()
    records = [json.loads(line) for line in lines.splitlines()]
    assert found["seconds"] == [record["seconds"] for record in records[1:]]
    assert len(records) == 3
    assert not any("accuracy" in record for record in records)  # a test takes time of its own
    assert found["workers"] == [[], []]
    assert found["memory"] >= found["memory_before"]


def at_work(*clients: int, seconds: float = 1.0) -> dict[str, Any]:
    workers = [{"worker": number, "clients": count} for number, count in enumerate(clients)]
    return {"workers": workers, "seconds": seconds}


def test_workers_that_do_not_come_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: RunFolder, on_round: Callable[[dict[str, Any]], None]) -> None:
        for record in coming:
            on_round(record)

    monkeypatch.setattr(scale_case, "run_in_folder", run)
    monkeypatch.setattr(scale_case, "start_run", lambda folder, config: None)
    plan, coming = made_plan(workers=(2,), models=("linear",)), [at_work(4)] * 3
    asked = {"config": plan.config(plan.base), "workers": 2, "rounds": 2}
    assert do_case(asked, tmp_path)["seconds"] == []
    monkeypatch.setattr(scale_case, "PATIENCE", -1.0)
    with pytest.raises(FedforError, match="1 of 2 workers were there after -1 s"):
        do_case(asked, tmp_path)
    coming[:] = [at_work(2, 2)] * 3
    assert do_case(asked, tmp_path)["seconds"] == [1.0, 1.0]  # nobody is missing


def test_rounds_count_once_all_workers_have_done_something() -> None:
    alone, first, second, both = at_work(4), at_work(4, 0), at_work(0, 4), at_work(2, 2)
    assert counted([alone, both, both], None) == [both, both]
    assert counted([alone, both, second, both], 2) == [second, both]
    assert counted([first, first, second, both], 2) == [both]
    assert counted([alone, second, both], 2) == [both]  # the first one was at work before
    assert counted([alone, alone], 2) == []
    assert counted([both], 2) == []
    slow = at_work(4, 0, seconds=SETTLED / 2)
    assert counted([slow] * 4, 2) == [slow]  # of a small cohort, one never gets any
