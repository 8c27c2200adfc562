"""A run is a folder that can be repeated, killed, damaged and resumed."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from fedfor.algorithms import ClientOpt, Named
from fedfor.data import sample_cohort
from fedfor.errors import ConfigError, DivergedError, FolderError
from fedfor.experiments.config import RunConfig
from fedfor.experiments.folder import RunFolder, locked, sha256
from fedfor.experiments.load import load_config
from fedfor.experiments.run import run_in_folder, start_run

from ..halting import Halting, after, halted
from ..processes import HANG, wait_until

ROOT = Path(__file__).parent.parent.parent
TABLES = {
    "rounds": 5,
    "engine": "serial",
    "data": {"name": "digits"},
    "population": {
        "kind": "dirichlet",
        "clients": 12,
        "cohort": 4,
        "alpha": 0.5,
        "samples_per_client": 24,
    },
    "model": {"name": "cnn-bn"},
    "training": {"epochs": 1, "batch_size": 8, "lr": 0.05},
}


def config(name: str = "fedfor", *assignments: str) -> RunConfig:
    return load_config({**TABLES, "algorithm": name}, assignments)


def finished(path: Path, settings: RunConfig) -> RunFolder:
    folder = RunFolder(path)
    start_run(folder, settings)
    run_in_folder(folder)
    return folder


def without_times(folder: RunFolder) -> dict[str, object]:
    """All files of a run, apart from times."""
    contents: dict[str, object] = {}
    for path in sorted(p for p in folder.path.rglob("*") if p.is_file() and p.name != ".lock"):
        name = str(path.relative_to(folder.path))
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            contents[name] = [{k: v for k, v in ln.items() if k != "seconds"} for ln in lines]
        elif name == "summary.json":
            summary = json.loads(path.read_text())
            contents[name] = {k: v for k, v in summary.items() if k != "seconds"}
        else:
            contents[name] = path.read_bytes()
    return contents


@pytest.mark.parametrize("name", ["fedfor", "scaffold+fedbn"])
def test_one_seed_gives_identical_files(tmp_path: Path, name: str) -> None:
    one, two = (finished(tmp_path / str(i), config(name)) for i in range(2))
    assert without_times(one) == without_times(two)
    other = finished(tmp_path / "other", config(name, "seed=1"))
    assert sha256(other.model_path) != sha256(one.model_path)


@pytest.mark.fast
def test_what_a_folder_holds(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config("fedfor", "evaluation.every=2"))
    records = folder.records()
    assert [r["round"] for r in records] == [1, 2, 3, 4, 5]
    assert ["accuracy" in r for r in records] == [False, True, False, True, True]
    assert ["classes" in r for r in records] == [False, True, False, True, True]
    assert [r["opposing"] is None for r in records] == [True, False, False, False, False]
    assert all(0 < r["opposing"] < 1 for r in records[1:])
    assert all(0 < r["cosine"] < 1 < r["disagreement"] for r in records)
    assert folder.config() == config("fedfor", "evaluation.every=2")
    summary = folder.summary()
    assert summary is not None
    assert summary["best"] == max(r["accuracy"] for r in records if "accuracy" in r)
    assert summary["model_sha256"] == sha256(folder.model_path)
    assert set(json.loads((folder.path / "environment.json").read_text())) >= {"torch", "fedfor"}
    model = 4 * 13906  # parameters and statistics of cnn-bn on 8 x 8 digits
    counters = 8 * 3
    up = [r["up"] for r in records]
    assert up == [4 * (records[0]["up"] // 4)] * 5
    assert records[0]["down_cross_device"] == up[0]
    assert records[1]["down_cross_device"] > 1.9 * up[0]
    assert abs(up[0] / 4 - model - counters) < 0.1 * model


@pytest.mark.fast
def test_numbers_of_the_wire(tmp_path: Path) -> None:
    """In a silo, clients called twice in a row get the difference only; others get two models."""
    folder = finished(tmp_path / "run", config("fedfor", "population.clients=4"))
    first, *later = folder.records()
    assert first["down_cross_device"] == first["down_cross_silo"] == first["up"]
    for record in later:
        assert record["down_cross_silo"] == record["up"]
        assert record["down_cross_device"] > record["down_cross_silo"]


def test_the_wire_with_some_clients_called_twice_in_a_row(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config("fedfor", "population.clients=6"))
    both, one = (folder.records()[1][k] // 4 for k in ("down_cross_device", "up"))
    mixed = 0
    for record in folder.records()[1:]:
        t = record["round"]
        again = len(set(sample_cohort(0, t, 6, 4)) & set(sample_cohort(0, t - 1, 6, 4)))
        assert record["down_cross_silo"] == again * one + (4 - again) * both
        mixed += 0 < again < 4
    assert mixed


@pytest.mark.fast
@pytest.mark.parametrize("engine", ["serial", "vector"])
def test_local_steps_are_the_mean_over_clients(tmp_path: Path, engine: str) -> None:
    """Clients of 24 samples take 3 batches of 10, twice."""
    settings = ("rounds=1", "training.epochs=2", "training.batch_size=10", f"engine={engine}")
    folder = finished(tmp_path / "run", config("fedavg", *settings))
    assert [r["local_steps"] for r in folder.records()] == [6.0]


@pytest.mark.fast
def test_lost_client_state_is_not_passed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    start_run(folder, config("scaffold"))

    def interrupt(record: dict[str, object]) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(folder, interrupt)
    victim = sorted(folder.clients_path.rglob("*.safetensors"))[-1]
    content = victim.read_bytes()
    victim.write_bytes(content[:30])
    with pytest.raises(FolderError, match=r"the state of client \d+ in .* is lost"):
        run_in_folder(folder)
    shutil.rmtree(folder.clients_path)
    with pytest.raises(FolderError, match=r"holds the state of 0 clients, and \d+ had some"):
        run_in_folder(folder)


@pytest.mark.fast
def test_a_changed_config_is_not_passed_over(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config("fedavg"))
    text = folder.config_path.read_text()
    folder.config_path.write_text(text.replace("lr = 0.05", "lr = 0.5"))
    with pytest.raises(FolderError, match="was changed after round 5 was done with it"):
        run_in_folder(folder)
    folder.config_path.write_text(text.replace("rounds = 5", "rounds = 3"))
    with pytest.raises(FolderError, match="has 5 rounds already"):
        run_in_folder(folder)
    folder.config_path.write_text(text.replace("rounds = 5", "rounds = 7"))
    assert len(run_in_folder(folder)) == 7  # more rounds are welcome
    longer = finished(tmp_path / "longer", config("fedavg", "rounds=7"))
    assert sha256(folder.model_path) == sha256(longer.model_path)


@pytest.mark.parametrize("odd", ["checkpoints/000099old", "clients/xx/a-b.safetensors"])
def test_foreign_files_in_a_run_folder_do_no_harm(tmp_path: Path, odd: str) -> None:
    folder = finished(tmp_path / "run", config("fedavg"))
    (folder.path / odd).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / odd).write_text("odd")
    assert len(run_in_folder(folder)) == 5


@dataclass(frozen=True)
class Remembering(ClientOpt):
    """Its server state is the model itself: two names for the same memory."""

    name: ClassVar[str] = "remembering"
    server_keeps: ClassVar[tuple[str, ...]] = ("previous",)

    def after(self, old: Tensor, new: Tensor, state: Named) -> dict[str, Tensor]:
        return {"previous": new}


@dataclass(frozen=True)
class Forgetful(ClientOpt):
    """Declares something to send up and does not send it."""

    name: ClassVar[str] = "forgetful"
    up: ClassVar[tuple[str, ...]] = ("promise",)


def test_state_that_shares_memory_can_be_saved(tmp_path: Path) -> None:
    finished(tmp_path / "run", config("tests.experiments.test_run:Remembering"))


def test_a_reply_that_does_not_fit_is_not_called_divergence(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"forgetful: the reply of client \d+: promise: .* missing"
    ):
        finished(tmp_path / "run", config("tests.experiments.test_run:Forgetful"))


def test_state_is_counted(tmp_path: Path) -> None:
    stateless = finished(tmp_path / "fedfor", config("fedfor")).records()
    assert {r["state_bytes"] for r in stateless} == {0}
    assert not (tmp_path / "fedfor" / "clients").exists()
    stateful = finished(tmp_path / "scaffold", config("scaffold")).records()
    seen = [r["clients_with_state"] for r in stateful]
    assert seen[0] == 4
    assert seen == sorted(seen)
    assert seen[-1] <= 12
    per_client = stateful[0]["state_bytes"] // 4
    assert [r["state_bytes"] for r in stateful] == [n * per_client for n in seen]


ALGORITHMS = ["fedfor", "scaffold", "fedadam", "fedbn"]


@pytest.mark.processes
@pytest.mark.parametrize("name", ALGORITHMS)
def test_killed_in_mid_round_and_resumed(tmp_path: Path, name: str) -> None:
    """kill -9, then resume: the same weights, hash for hash, as a run that was left alone."""
    halting = config(name, "model.name=tests.halting:halting_cnn")
    before = Halting.passes
    unbroken = finished(tmp_path / "unbroken", halting)
    of_round = (Halting.passes - before) / 5
    broken = RunFolder(tmp_path / "broken")
    start_run(broken, halting)
    command = [sys.executable, "-m", "fedfor.cli", "resume", str(broken.path)]
    for done in (1, 2):  # killed twice, each time in the middle of its second round
        flag = tmp_path / f"halted-{done}"
        process = subprocess.Popen(
            command,
            env=os.environ | after(1.5 * of_round, flag),
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
        )
        try:
            wait_until(lambda flag=flag: halted(flag), "the run halts in mid-round", process)
        finally:
            process.kill()
            process.wait(HANG)
        assert len(broken.records()) == done
        assert broken.summary() is None
    run_in_folder(broken)
    assert sha256(broken.model_path) == sha256(unbroken.model_path)
    ours, theirs = without_times(broken), without_times(unbroken)
    assert ours["rounds.jsonl"] == theirs["rounds.jsonl"]
    assert ours["summary.json"] == theirs["summary.json"]
    kept = {k: v for k, v in ours.items() if "checkpoints" in k}
    assert kept == {k: v for k, v in theirs.items() if "checkpoints" in k}


@pytest.mark.parametrize(
    ("name", "engine", "every"),
    [(name, "serial", every) for name in ALGORITHMS for every in (1, 2)]
    + [("fedfor", "vector", 2), ("scaffold", "vector", 1)],
)
def test_resume_from_any_round(tmp_path: Path, name: str, engine: str, every: int) -> None:
    settings = config(name, f"checkpoint_every={every}", f"engine={engine}")
    unbroken = finished(tmp_path / "unbroken", settings)
    for stop in range(1, 5):
        folder = RunFolder(tmp_path / f"stopped-{stop}")
        start_run(folder, settings)

        def interrupt(record: dict[str, object], stop: int = stop) -> None:
            if record["round"] == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_in_folder(folder, interrupt)
        run_in_folder(folder)
        ours, theirs = without_times(folder), without_times(unbroken)
        if every > 1:  # which checkpoints and states are still there depends on the interruption
            ours, theirs = (
                {k: v for k, v in files.items() if "/" not in k} for files in (ours, theirs)
            )
        assert ours == theirs
        assert sha256(folder.model_path) == sha256(unbroken.model_path)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    before = folder.rounds_path.read_bytes()
    assert len(run_in_folder(folder)) == 5
    assert folder.rounds_path.read_bytes() == before
    assert folder.summary() is not None


@pytest.mark.parametrize("how", ["cut", "emptied", "gone", "json cut"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, how: str) -> None:
    unbroken = finished(tmp_path / "unbroken", config("scaffold"))
    folder = finished(tmp_path / "run", config("scaffold"))
    newest = folder.checkpoints_path / "000005"
    victim = newest / ("state.json" if how == "json cut" else "state.safetensors")
    content = victim.read_bytes()
    if how == "gone":
        victim.unlink()
    else:
        victim.write_bytes(b"" if how == "emptied" else content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"000005 is damaged .* going on from round 4"):
        run_in_folder(folder)
    ours, theirs = without_times(folder), without_times(unbroken)
    superseded = ours.keys() ^ theirs.keys()  # states that no checkpoint left needs any more
    assert all(name.startswith("clients") for name in superseded)
    assert all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())
    assert sha256(folder.model_path) == sha256(unbroken.model_path)


def test_when_all_checkpoints_are_damaged_it_says_what_is_lost(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    for tensors in folder.checkpoints_path.glob("*/state.safetensors"):
        tensors.write_bytes(tensors.read_bytes()[:100])
    with pytest.raises(FolderError, match=r"rounds 1 to 5 are still in rounds.jsonl, the model"):
        run_in_folder(folder)
    assert len(folder.records()) == 5


def test_a_damaged_record_says_what_is_lost(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    lines = folder.rounds_path.read_bytes().splitlines(keepends=True)
    folder.rounds_path.write_bytes(lines[0] + lines[1][:20])
    with pytest.raises(FolderError, match=r"records of rounds 2 to 5 are lost"):
        run_in_folder(folder)


def test_a_line_cut_short_by_a_crash_is_done_again(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    with folder.rounds_path.open("ab") as file:
        file.write(b'{"round": 6, "cli')
    run_in_folder(folder)
    assert folder.rounds_path.read_bytes().count(b"\n") == 5


def test_occupied_folders_are_refused(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", config())
    with pytest.raises(FolderError, match=r"holds another run \(fedfor, seed 0, 5 of 5 rounds\)"):
        start_run(RunFolder(folder.path), config())
    unfinished = RunFolder(tmp_path / "unfinished")
    start_run(unfinished, config())
    with pytest.raises(FolderError, match=r"go on with 'fedfor resume .*unfinished'"):
        start_run(RunFolder(unfinished.path), config())
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("precious")
    with pytest.raises(FolderError, match="is not empty and holds no run"):
        start_run(RunFolder(foreign), config())
    with pytest.raises(FolderError, match="is no run folder"):
        run_in_folder(RunFolder(foreign))
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="is not empty and holds no run"):
        start_run(RunFolder(tmp_path / "file"), config())


@pytest.mark.fast
def test_two_processes_cannot_run_in_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    start_run(folder, config())
    with locked(folder.path), pytest.raises(FolderError, match="in use by another process"):
        run_in_folder(RunFolder(folder.path))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "assignments", "words"),
    [
        ("fedavg", ["training.lr=1e20"], "fedavg diverged in round 1: client"),
        (
            "fedfor",
            ["algorithm.strength=equation", "algorithm.alpha=1e12", "rounds=9"],
            "set algorithm.strength to 'step'",
        ),
        ("fedprox", ["algorithm.mu=1e12", "training.lr=0.5"], "lower algorithm.mu (now 1e+12)"),
        (
            "fedavgm",
            ["algorithm.server.lr=1e38", "rounds=9"],
            "lower algorithm.server.momentum (now 0.9)",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:fedfor with strength")
def test_divergence_stops_with_advice_and_keeps_the_folder(
    tmp_path: Path, name: str, assignments: list[str], words: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    start_run(folder, config(name, "model.name=mlp", *assignments))
    with pytest.raises(DivergedError) as error:
        run_in_folder(folder)
    sentence = str(error.value)
    assert words in sentence
    assert "lower training.lr" in sentence
    assert str(folder.path) in sentence
    summary = folder.summary()
    assert summary is not None
    assert "diverged in round" in summary["diverged"]
    assert all(torch.isfinite(torch.tensor(r["train_loss"])) for r in folder.records())
    kept = load_file(folder.model_path)
    assert all(torch.isfinite(t).all() for t in kept.values())  # the last good one


@pytest.mark.fast
def test_nothing_is_written_for_a_config_that_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        start_run(RunFolder(tmp_path / "run"), config("fedfor", "population.cohort=13"))
    assert not (tmp_path / "run").exists()
