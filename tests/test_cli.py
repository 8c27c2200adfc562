"""The command line as people use it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfor import __version__

from .conftest import Cli
from .halting import after, halted
from .processes import HANG, is_alive, wait_until

SMALL = [
    "--set", "rounds=2", "--set", "population.cohort=3", "--set", "training.epochs=1",
    "--set", "model.name=linear",
]  # fmt: skip


TOO_MANY = f"population.clients={10**10}"


@pytest.mark.fast
def test_version_and_help(fedfor: Cli) -> None:
    assert fedfor("--version") == (0, f"fedfor {__version__}\n", "")
    code, out, _ = fedfor("--help")
    assert code == 0
    for word in ("run", "compare", "resume", "algorithms", "configs", "fedfor run prior-shift"):
        assert word in out
    for command in ("run", "compare", "resume"):
        assert fedfor(command, "--help")[0] == 0


@pytest.mark.fast
def test_algorithms(fedfor: Cli) -> None:
    code, out, _ = fedfor("algorithms")
    assert code == 0
    for name in ("fedavg", "scaffold", "fedfor-paper+fedbn", "direction", "own_control"):
        assert name in out
    code, out, _ = fedfor("algorithms", "fedfor+fedadam+fedbn")
    assert code == 0
    assert "algorithm.alpha = 4.0" in out
    assert "algorithm.server.beta2 = 0.99" in out
    assert "batch-norm" in out


@pytest.mark.fast
def test_configs(fedfor: Cli) -> None:
    assert "covariate-shift" in fedfor("configs")[1]
    code, out, _ = fedfor("configs", "prior-shift")
    assert code == 0
    Path("mine.toml").write_text(out)
    assert fedfor("run", "mine.toml", *SMALL)[0] == 0
    assert Path("runs/mine/fedfor-seed0/summary.json").is_file()
    assert "did you mean 'prior-shift'" in fedfor("configs", "prior")[2]


@pytest.mark.fast
def test_run_and_resume(fedfor: Cli) -> None:
    code, out, err = fedfor("run", "prior-shift", *SMALL, "--set", "algorithm.alpha=3", "-o", "r")
    assert (code, err) == (0, "")
    assert "round 2/2" in out
    assert "90 % never reached. Everything is in r" in out
    assert "alpha = 3\n" in Path("r/config.toml").read_text()
    Path("r/summary.json").unlink()
    code, out, _ = fedfor("resume", "r")
    assert code == 0
    assert json.loads(Path("r/summary.json").read_text())["rounds"] == 2


def test_compare(fedfor: Cli) -> None:
    words = [
        "compare",
        "prior-shift",
        "-a",
        "fedavg",
        "-a",
        "fedfor,alpha=2",
        "--seeds",
        "2",
        *SMALL,
    ]
    code, out, err = fedfor(*words, "--out", "c", "--workers", "1")
    assert (code, err) == (0, "")
    assert "fedfor,alpha=2, seed 1: best" in out
    assert "(4 of 4 runs)" in out
    assert {p.name for p in Path("c").iterdir()} == {
        ".lock", "compare.toml", "comparison.json", "curves.png", "report.html", "runs",
        "table.md", "workers",
    }  # fmt: skip
    assert "All 4 runs are there" in fedfor(*words, "--out", "c")[1]
    assert "All 4 runs are there" in fedfor("resume", "c")[1]


def npz(**changed: object) -> str:
    rng = np.random.default_rng(0)
    arrays: dict[str, object] = {
        "x_train": rng.random((40, 1, 8, 8)).astype(np.float32),
        "y_train": np.arange(40) % 4,
        "x_test": rng.random((8, 1, 8, 8)).astype(np.float32),
        "y_test": np.arange(8) % 4,
        **changed,
    }
    np.savez("mine.npz", **arrays)  # type: ignore[arg-type]
    return "data.file=mine.npz"


def nan_data() -> str:
    x = np.zeros((40, 1, 8, 8), np.float32)
    x[7] = np.nan
    return npz(x_train=x)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("algorithm.name=scafold", "did you mean 'scaffold'?"),
        ("algorithm.alpha=-1", "fedfor: alpha must be 0 or more (got -1)"),
        ("population.clients=4", "cohort is 10 but the population has 4 clients"),
        ("population.share=0.002", "has no data; raise population.share"),
        (lambda: npz(y_test=np.arange(8)), "label 4 of sample 4 is out of range"),
        (nan_data, "1 samples hold NaN or infinity, the first is sample 7"),
        ("data.file=gone.npz", "gone.npz"),
        ("training.optimizer=addam", "did you mean 'adam'"),
        ("device=cuda:99", "device 'cuda:99' cannot be used here"),
    ],
)
def test_bad_inputs_get_one_sentence_and_exit_code_2(
    fedfor: Cli, assignment: object, words: str
) -> None:
    text = assignment() if callable(assignment) else assignment
    code, _, err = fedfor("run", "prior-shift", "--set", text, "-o", "r")
    assert code == 2
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert not Path("r").exists()


def test_own_data_runs(fedfor: Cli) -> None:
    code, _, err = fedfor("run", "prior-shift", *SMALL, "--set", npz(), "-o", "r")
    assert (code, err) == (0, "")


@pytest.mark.fast
def test_other_bad_inputs(fedfor: Cli) -> None:
    Path("broken.toml").write_text("[training\nlr = 1")
    Path("bad.py").write_text("def x(:\n")
    cases = [
        (["run", "broken.toml"], "broken.toml is not valid TOML"),
        (["run", "gone.toml"], "there is no config file gone.toml"),
        (["resume", "nowhere"], "nowhere is no run folder"),
        (["compare", "demo", "--seeds", "three"], "write a count, such as 3"),
        (["compare", "demo", "--seeds", "-1"], "between 1 and 1000"),
        (["compare", "demo", "--seeds", ""], "write a count, such as 3"),
        (["compare", "demo", "--set", "population.kind=domains"], "needs data with domains"),
        (["run", "prior-shift", *SMALL, "-o", "broken.toml/x"], "cannot read or write"),
        (["run", "prior-shift", "--set", "model.name=:"], "not of the form package.module:name"),
        (["run", "prior-shift", "--set", "model.name=os:getcwd"], "os:getcwd failed: TypeError"),
        (["run", "prior-shift", "--set", "model.name=bad:x"], "cannot import 'bad': SyntaxError"),
        (
            ["run", "prior-shift", "--set", f"population.clients={10**20}"],
            "must be from 1 to 1e+18",
        ),
        (
            [
                "run",
                "prior-shift",
                "--set",
                "population.kind=iid",
                "--set",
                f"population.clients={10**10}",
            ],
            "10000000000 clients cannot share 1198 samples",
        ),
        (["algorithms", "fedavgg"], "did you mean 'fedavg'"),
    ]
    for words, expected in cases:
        code, _, err = fedfor(*words)
        assert code == 2, words
        assert expected in err
        assert err.count("\n") == 1


def test_a_folder_that_holds_another_run(fedfor: Cli) -> None:
    assert fedfor("run", "prior-shift", *SMALL, "-o", "r")[0] == 0
    before = Path("r/rounds.jsonl").read_bytes()
    code, _, err = fedfor("run", "prior-shift", *SMALL, "-o", "r")
    assert code == 2
    assert "r holds another run (fedfor, seed 0, 2 of 2 rounds); choose another folder" in err
    assert Path("r/rounds.jsonl").read_bytes() == before


@pytest.mark.filterwarnings("always")
def test_a_checkpoint_cut_in_half(fedfor: Cli) -> None:
    assert fedfor("run", "prior-shift", *SMALL, "-o", "r")[0] == 0
    first, second = sorted(Path("r/checkpoints").glob("*/state.safetensors"))
    second.write_bytes(second.read_bytes()[:200])
    code, _, err = fedfor("resume", "r")
    assert code == 0
    assert "warning: checkpoint" in err
    assert "going on from round 1" in err
    first, second = sorted(Path("r/checkpoints").glob("*/state.safetensors"))
    for tensors in (first, second):
        tensors.write_bytes(tensors.read_bytes()[:200])
    code, _, err = fedfor("resume", "r")
    assert code == 2
    assert "the model is lost" in err


@pytest.mark.fast
def test_divergence_is_exit_code_3_and_keeps_the_folder(fedfor: Cli) -> None:
    words = ["--set", "training.lr=1e30", "--set", "model.name=mlp", "-o", "r"]
    code, _, err = fedfor("run", "prior-shift", *SMALL, *words)
    assert code == 3
    assert "diverged in round 1" in err
    assert "lower training.lr (now 1e+30)" in err
    assert "0 rounds before it are in r" in err
    assert json.loads(Path("r/summary.json").read_text())["diverged"]


@pytest.mark.filterwarnings("always")
def test_a_warning_is_one_line(fedfor: Cli) -> None:
    from fedfor.algorithms.fedfor import _warn_that_equation_explodes

    _warn_that_equation_explodes.cache_clear()
    words = ["run", "prior-shift", *SMALL, "--set", "algorithm.strength=equation", "-o", "r"]
    _, _, err = fedfor(*words)
    assert err.startswith("warning: fedfor with strength = 'equation' and an alpha above 1")
    assert err.count("warning") == 1


@pytest.mark.fast
def test_import_is_light() -> None:
    """What `import fedfor` and --help load is a cost in every process: not torch."""
    code = "import sys, fedfor, fedfor.cli; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


@pytest.mark.processes
def test_bars_on_a_terminal(tmp_path: Path) -> None:
    """In a pseudo-terminal there is a bar with rounds, accuracy and time left."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "fedfor.cli", "run", "prior-shift", *SMALL, "-o", "r"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(master)
    assert process.wait(HANG) == 0
    text = shown.decode()
    for words in ("fedfor, seed 0", "2/2", " %"):
        assert words in text
    assert re.search(r"\d:\d\d:\d\d", text)  # time left


def test_runs_that_are_not_told_where_to_go_get_folders_of_their_own(fedfor: Cli) -> None:
    for folder in ("fedfor-seed0", "fedfor-seed0-2", "fedfor-seed0-3"):
        code, out, _ = fedfor("run", "prior-shift", *SMALL)
        assert code == 0
        assert f"Everything is in runs/prior-shift/{folder}" in out


def test_names_with_brackets_are_shown_as_they_are(fedfor: Cli) -> None:
    code, out, _ = fedfor("run", "prior-shift", *SMALL, "-o", "m[/b]ü [red]x")
    assert code == 0
    assert "Everything is in m[/b]ü [red]x" in out


def test_another_kind_of_population_brings_its_own_settings(fedfor: Cli) -> None:
    words = ["--set", "population.kind=shards", "--set", "population.clients=20"]
    assert fedfor("run", "prior-shift", *words, *SMALL, "-o", "r")[0] == 0
    assert "share" not in Path("r/config.toml").read_text()


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_comparison_leaves_no_process_and_goes_on(
    fedfor: Cli, tmp_path: Path, how: int
) -> None:
    command = [sys.executable, "-m", "fedfor.cli"]
    words = ["compare", "prior-shift", "-a", "fedavg", "-a", "scaffold", "--seeds", "1", "-w", "2"]
    words += ["--set", "rounds=3", "--set", "population.cohort=3", "--set", "training.epochs=1"]
    words += ["--set", "model.name=tests.halting:halting_linear", "--set", "engine=serial"]
    flag, err = tmp_path / "halted", tmp_path / "err"
    with err.open("wb") as file:
        process = subprocess.Popen(
            [*command, *words, "--out", "c"],
            cwd=tmp_path,
            stderr=file,
            env=os.environ | after(30, flag),
        )
    try:
        wait_until(lambda: len(halted(flag)) == 2, "both runs halt in mid-round", process)
        process.send_signal(how)  # to this process alone, not to its workers
        process.wait(HANG)
    finally:
        process.kill()
    if how != signal.SIGKILL:
        assert process.returncode == 130
        assert "stopped; nothing is lost, go on with: fedfor resume c" in err.read_text()
    workers = [int(path.suffix[1:]) for path in halted(flag)]
    wait_until(lambda: not any(map(is_alive, workers)), "no worker is left")
    assert "rounds = 3" in (tmp_path / "c/compare.toml").read_text()
    assert fedfor("resume", "c")[0] == 0
    assert (tmp_path / "c/table.md").is_file()


def test_bench(fedfor: Cli, tmp_path: Path) -> None:
    words = "bench --models linear,mlp --cohorts 2,3 --seconds 0 --samples 8 --json b.json"
    code, out, _ = fedfor(*words.split())
    assert code == 0
    assert out.count("vector") == 4
    figures = json.loads((tmp_path / "b.json").read_text())
    assert figures["command"] == f"fedfor {words}"
    assert len({(r["engine"], r["model"], r["cohort"]) for r in figures["results"]}) == 8
    for result in figures["results"]:
        assert result["images_a_second"] == pytest.approx(8 * result["clients_a_second"])
    one = "bench --models linear,cnn-bn --cohorts 2 --seconds 0 --samples 1 --engines auto --json -"
    code, out, _ = fedfor(*one.split())
    assert code == 0
    first, second = json.loads(out)["results"]
    assert first["together"] == 2
    assert "single sample" in second["problem"]  # and the other is kept
    for bad, message in (
        ("--models net", "'net' is not known"),
        ("--cohorts ten", "--cohorts ten: write whole numbers"),
        ("--precision fp8", "precision cannot be 'fp8'"),
        ("--algorithm fedfro", "did you mean 'fedfor'"),
        ("--algorithm fedbn --models linear", "but the model has none"),
        ("--engines fast:er", "'fast:er' is not known"),
        ("--device gpu", "device 'gpu' cannot be used here"),
        ("--json nowhere/b.json", "there is no folder"),
    ):
        code, _, err = fedfor("bench", *bad.split())
        assert (code, message in err) == (2, True)


def test_the_engine_is_chosen_and_told(fedfor: Cli, tmp_path: Path) -> None:
    for engine in ("vector", "serial"):
        code, _, _ = fedfor("run", "prior-shift", *SMALL, "--engine", engine, "--out", engine)
        assert code == 0
        environment = json.loads((tmp_path / engine / "environment.json").read_text())
        assert environment["engine"] == engine
        assert environment.get("together") == (3 if engine == "vector" else None)
    code, _, err = fedfor("run", "prior-shift", *SMALL, "--engine", "vectro", "--out", "wrong")
    assert code == 2
    assert "engine" in err
    assert "'vector'" in err
