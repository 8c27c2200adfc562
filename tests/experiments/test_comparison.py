import json
from pathlib import Path

import pytest
from rich.console import Console
from torch import nn

from fedfor.errors import ConfigError, FolderError
from fedfor.experiments.compare import compare
from fedfor.experiments.comparison import AlgorithmResult, Comparison, safe, with_assignments
from fedfor.experiments.folder import RunFolder, locked, sha256
from fedfor.experiments.metrics import Spread
from fedfor.experiments.run import run_in_folder, start_run
from fedfor.report.comparison import write_report
from fedfor.report.progress import RunsProgress
from fedfor.report.table import columns, domain_columns, markdown, per_cent, rows, whole

from .test_run import TABLES

ALGORITHMS = ["fedavg", "fedprox,mu=0.1,training.lr=0.02", "fedavg,training.lr=1e30"]


def planned(path: Path, **changed: object) -> Comparison:
    tables = {**TABLES, "rounds": 3, "evaluation": {"target": 0.99}, **changed}
    tables.setdefault("compare", {"algorithms": ALGORITHMS, "seeds": 2})
    return Comparison(tables, path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    comparison = planned(tmp_path_factory.mktemp("comparison") / "made")
    ended = compare(comparison, workers=2)
    assert len(ended) == 6
    assert [e.diverged for e in ended if e.run.label == ALGORITHMS[2]] == [True, True]
    assert all(e.problem is None for e in ended if e.run.label != ALGORITHMS[2])
    return comparison


def test_settings_go_where_they_belong(tmp_path: Path) -> None:
    runs = {(r.label, r.seed): r.config for r in planned(tmp_path / "c").runs}
    assert len(runs) == 6
    prox = runs[ALGORITHMS[1], 1]
    assert (prox.seed, prox.algorithm["mu"], prox.training.lr) == (1, 0.1, 0.02)
    assert runs["fedavg", 0].training.lr == 0.05


def test_long_names_of_folders_are_cut_and_stay_apart() -> None:
    assert safe("fedfor,alpha=2,training.lr=0.1") == "fedfor,alpha=2,training.lr=0.1"
    long = [f"fedavg,training.augment={'flip' * 60}{end}" for end in "ab"]
    names = [safe(name) for name in long]
    assert all(len(name) <= 120 and name.startswith("fedavg,training") for name in names)
    assert names[0] != names[1]


def test_workers_change_nothing(done: Comparison, tmp_path: Path) -> None:
    run = done.runs[0]
    alone = RunFolder(tmp_path / "alone")
    start_run(alone, run.config)
    run_in_folder(alone)
    assert sha256(alone.model_path) == sha256(run.folder.model_path)


def test_without_a_terminal_progress_is_told_by_quarters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = planned(tmp_path / "c", rounds=2)  # of 6 runs: 12 rounds
    progress = RunsProgress(Console(force_terminal=False), comparison.runs)
    told = []
    for t in (1, 2):
        for run in comparison.runs:
            run.folder.path.mkdir(parents=True, exist_ok=True)
            run.folder.append({"round": t, "accuracy": 0.5, "seconds": 1.0})
            progress.tick()
            told.append(capsys.readouterr().out.strip())
    assert [line for line in told if line] == [f"{n} of 12 rounds" for n in (3, 6, 9)]
    assert told[2] == "3 of 12 rounds"


def test_going_on_runs_only_what_is_left(done: Comparison) -> None:
    stamp = done.runs[0].folder.rounds_path.stat().st_mtime_ns
    done.runs[1].folder.summary_path.unlink()
    again = compare(Comparison.saved(done.path), workers=1)
    assert [e.run.label for e in again] == [done.runs[1].label]
    assert done.runs[0].folder.rounds_path.stat().st_mtime_ns == stamp


def test_the_report(done: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(done, Console(width=200))
    shown = capsys.readouterr().out
    assert "  training.lr=1e30 [2 of 2 diverged]" in shown
    assert "never" in shown
    assert "curves in" in shown
    table = (done.path / "table.md").read_text()
    assert table.count("\n") == 5
    assert "**" in table
    numbers = json.loads((done.path / "comparison.json").read_text())
    best = numbers["results"][0]["best"]
    values = [r.folder.summary()["best"] for r in done.runs if r.label == "fedavg"]  # type: ignore[index]
    assert best["values"] == values
    assert best["mean"] == pytest.approx(sum(values) / 2)
    assert numbers["results"][2]["best"]["mean"] is None
    picture = (done.path / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_winners_are_marked(done: Comparison) -> None:
    results = done.results()
    shown = columns(done)
    table = rows(results, shown)
    for c, column in enumerate(shown):
        values = [row[c].value for row in table]
        best = [v for v in values if v is not None]
        if not best:
            continue
        wanted = max(best) if column.highest_wins else min(best)
        assert [row[c].winner for row in table] == [v == wanted for v in values]
    assert not any(cell.winner for cell in table[2][:3])  # it diverged
    assert markdown(results, shown).count("**") == 2 * sum(c.winner for row in table for c in row)


def test_cells() -> None:
    assert per_cent(Spread((0.5, 0.7))).text == "60.0 (14.1)"
    assert per_cent(Spread((0.5,))).text == "50.0"
    assert whole(Spread((10, 20))).text == "15.0 (7.1)"
    assert whole(Spread((10, None, 7))).text == "10, 7; 1 of 3 never"
    assert whole(Spread((None, None))).text == "never"
    assert whole(Spread((10, None))).value is None


def test_domains_have_columns_of_their_own(tmp_path: Path) -> None:
    tables = {
        "data": {"name": "digit-domains"},
        "population": {"kind": "domains", "concept_shift": 0.5},
        "model": {"name": "cnn-bn"},
        "rounds": 1,
        "compare": {"algorithms": ["fedbn", "fedavg"], "seeds": 1},
    }
    comparison = Comparison(tables, tmp_path / "c")
    compare(comparison, workers=1)
    titles = [c.title for c in domain_columns(comparison.results())]
    assert titles == [f"{d}, %" for d in ("plain", "inverted", "textured", "blurred", "rendered")]
    assert "mean, %" in [c.title for c in columns(comparison)]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"algorithms": ["fedavg", "fedfro"]}, "did you mean 'fedfor'"),
        ({"algorithms": ["fedavg", "fedavg"]}, "each may be named once only"),
        ({"algorithms": []}, "compare.algorithms"),
        ({"seeds": []}, "compare.seeds"),
        ({"algorithm": ["fedavg"]}, "compare.algorithm"),
        ({"algorithms": ["fedprox,mu=-1"]}, "mu must be 0 or more"),
        ({"algorithms": ["fedprox,training.lr=0"]}, "training.lr"),
        ({"algorithms": ["fedprox,evaluation.target=0.1"]}, "must be the same for all algorithms"),
        ({"algorithms": ["fedavg"], "seeds": 10**12}, "between 1 and 1000"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, choice: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        planned(tmp_path / "c", compare=choice)
    assert words in str(error.value)
    assert not (tmp_path / "c").exists()


def test_settings_of_all_runs(tmp_path: Path) -> None:
    tables = with_assignments({"rounds": 3}, ["training.lr=0.5", "population.cohort=2"])
    assert tables["training"]["lr"] == 0.5
    for assignment, words in (
        ("algorithm.alpha=3", "-a NAME,alpha=3"),
        ("algorithm=fedavg", "-a NAME"),
        ("seed=4", "use --seeds"),
    ):
        with pytest.raises(ConfigError) as error:
            with_assignments({}, [assignment])
        assert words in str(error.value)
    twice = {"algorithms": ["fedprox, mu=0.1", "fedprox,\tmu=0.1"]}
    with pytest.raises(ConfigError, match="would write to one folder"):
        planned(tmp_path / "c", compare=twice)


def test_commas_inside_values(tmp_path: Path) -> None:
    label = "fedavg,training.options={momentum=0.9,nesterov=true},algorithm.weighting=examples"
    run = planned(tmp_path / "c", compare={"algorithms": [label], "seeds": 1}).runs[0]
    assert run.config.training.options == {"momentum": 0.9, "nesterov": True}
    assert run.config.algorithm["weighting"] == "examples"


def test_settings_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not use the settings in \[algorithm\] \(alpha\)"):
        planned(tmp_path / "c", algorithm={"name": "fedfor", "alpha": 3})
    for harmless in ({"name": "fedfor"}, "fedfor"):
        assert len(planned(tmp_path / "c", algorithm=harmless).runs) == 6


def test_a_diverged_seed_wins_no_column(tmp_path: Path) -> None:
    runs = planned(tmp_path / "c").runs[::3]  # both seeds of the first algorithm
    for run, diverged in zip(runs, (False, True), strict=True):
        run.folder.create(run.config)
        summary = {"best": 0.5, "domains": {"plain": 0.5}} | (
            {"diverged": "yes"} if diverged else {}
        )
        run.folder.summary_path.write_text(json.dumps(summary))
    result = AlgorithmResult("fedavg", runs)
    assert result.spread("best").mean is None
    assert result.domain_spread("plain").mean is None


def test_two_processes_cannot_work_in_one_folder(done: Comparison) -> None:
    with locked(done.path), pytest.raises(FolderError, match="in use by another process"):
        compare(Comparison.saved(done.path))


def broken_model(shape: object, classes: int) -> nn.Module:
    """Fits the data, and fails once it trains."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
    model.register_forward_hook(lambda module, *_: 1 / 0 if module.training else None)
    return model


def test_a_run_that_fails_is_told_and_its_seed_not_averaged_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "tests.experiments.test_comparison:broken_model"
    comparison = planned(tmp_path / "c", engine="auto", model={"name": path})
    comparison.create()
    healthy = planned(tmp_path / "c", engine="auto").runs[0]  # one seed of one algorithm is done
    start_run(healthy.folder, healthy.config)
    run_in_folder(healthy.folder)
    with pytest.warns(UserWarning, match="one client after another, because the vector engine"):
        ended = compare(comparison, workers=1)
    assert len(ended) == 5
    assert all("ZeroDivisionError" in (e.problem or "") for e in ended)
    assert "Traceback" in (ended[0].run.folder.path / "error.txt").read_text()
    write_report(comparison, Console(width=200))
    assert "fedavg [1 of 2 not done]" in capsys.readouterr().out


def test_occupied_folders_are_refused(done: Comparison, tmp_path: Path) -> None:
    other = planned(done.path, rounds=4)
    with pytest.raises(FolderError, match="holds another comparison"):
        compare(other)
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(FolderError, match="is not empty"):
        compare(planned(tmp_path))
