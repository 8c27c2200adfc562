"""A ServerApp that was stopped goes on where it was."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message, MetricRecord

from fedfor import Algorithm
from fedfor import __version__ as version
from fedfor.algorithms import ServerOpt
from fedfor.errors import FolderError
from fedfor.experiments.folder import RunFolder
from fedfor.flower import Strategy

from ..conftest import Cli
from .app import client_app, new_model
from .grid import InProcessGrid

NODES = 3


class PowerCutError(Exception):
    pass


def strategy_in(folder: Path | None, algorithm: str = "fedfor", **options: Any) -> Strategy:
    given = {"min_available_nodes": NODES, "min_train_nodes": NODES, "folder": folder}
    return Strategy(algorithm, new_model(), **(given | options))


def cut_after(answers: int, grid: InProcessGrid) -> InProcessGrid:
    left = answers

    def cut(node: int, reply: Message) -> Message:
        nonlocal left
        left -= 1
        if left < 0:
            raise PowerCutError
        return reply

    grid.tamper = cut
    return grid


def federation() -> InProcessGrid:
    return InProcessGrid(client_app(NODES), NODES)


def equal(one: Any, other: Any) -> bool:
    a, b = one.arrays.to_torch_state_dict(), other.arrays.to_torch_state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


# Rounds have three answers to train and three to evaluate, so these are within the first round,
# the third, and between training and evaluation of the fourth.
@pytest.mark.parametrize("answers", [1, 14, 21])
@pytest.mark.parametrize("name", ["fedfor", "fedavg", "fedavgm", "fedfor+fedadam"])
def test_it_goes_on_to_the_same_model(name: str, answers: int, tmp_path: Path) -> None:
    whole = strategy_in(tmp_path / "whole", name).start(federation(), num_rounds=5)
    with pytest.raises(PowerCutError):
        strategy_in(tmp_path / "cut", name).start(cut_after(answers, federation()), num_rounds=5)
    again = strategy_in(tmp_path / "cut", name)
    # Nodes have not been restarted, but Flower gives each run a Context of its own.
    assert equal(again.start(federation(), num_rounds=5), whole)
    one, other = (RunFolder(tmp_path / f).records() for f in ("whole", "cut"))
    assert other == again.records
    # A silo's clients have lost the model with their Contexts, so all of it goes down once more.
    for record in (*one, *other):
        del record["seconds"], record["down_cross_silo"]
    assert one == other
    models = [(tmp_path / f / "model.safetensors").read_bytes() for f in ("whole", "cut")]
    assert models[0] == models[1]


def test_a_finished_run_can_be_made_longer_but_not_shorter(tmp_path: Path) -> None:
    strategy_in(tmp_path / "run").start(federation(), num_rounds=2)
    grid = federation()
    result = strategy_in(tmp_path / "run").start(grid, num_rounds=2)
    assert grid.asked == []
    longer = strategy_in(tmp_path / "run").start(federation(), num_rounds=4)
    assert equal(longer, strategy_in(None).start(federation(), num_rounds=4))
    assert not equal(longer, result)
    with pytest.raises(FolderError, match="has 4 rounds already, more than the 3 asked for"):
        strategy_in(tmp_path / "run").start(federation(), num_rounds=3)


def test_initial_arrays_are_for_a_new_run_only(tmp_path: Path) -> None:
    """As Flower's apps pass them, also when they are started again."""
    arrays = strategy_in(None).arrays()
    strategy_in(tmp_path / "run").start(federation(), arrays, num_rounds=2)
    result = strategy_in(tmp_path / "run").start(federation(), arrays, num_rounds=4)
    assert equal(result, strategy_in(None).start(federation(), num_rounds=4))


def test_lost_client_state_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, told in (("feddyn", True), ("fedfor", False)):
        strategy_in(tmp_path / name, name).start(federation(), num_rounds=1)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="flwr"):
            strategy_in(tmp_path / name, name).start(federation(), num_rounds=2)
        assert ("clients start without it" in caplog.text) == told


def test_another_federation_is_not_gone_on_with(tmp_path: Path) -> None:
    strategy_in(tmp_path / "run").start(federation(), num_rounds=1)
    with pytest.raises(FolderError, match="holds a federation with another algorithm"):
        strategy_in(tmp_path / "run", "fedprox").start(federation(), num_rounds=2)
    with pytest.raises(FolderError, match="holds a federation with another seed"):
        strategy_in(tmp_path / "run", seed=1).start(federation(), num_rounds=2)
    with pytest.raises(FolderError, match="holds a federation with another population"):
        strategy_in(tmp_path / "run", population=50).start(federation(), num_rounds=2)
    other = Strategy("fedfor", new_model("cnn"), folder=tmp_path / "run")
    with pytest.raises(FolderError, match="holds a federation with another model"):
        other.start(federation(), num_rounds=2)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("")
    with pytest.raises(FolderError, match="is not empty and holds no federation"):
        strategy_in(tmp_path / "foreign").start(federation(), num_rounds=1)


def test_a_simulated_run_is_not_gone_on_with_nor_the_other_way(tmp_path: Path, fedfor: Cli) -> None:
    strategy_in(tmp_path / "run").start(federation(), num_rounds=1)
    code, _, err = fedfor("resume", tmp_path / "run")
    assert code == 2
    assert "holds a federation on Flower; to go on, start its app again" in err
    code, _, err = fedfor("run", "prior-shift", "--set", "rounds=1", "--out", tmp_path / "sim")
    assert code == 0, err
    with pytest.raises(FolderError, match="holds a federation with another"):
        strategy_in(tmp_path / "sim").start(federation(), num_rounds=1)


def test_a_damaged_checkpoint_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strategy_in(tmp_path / "run").start(federation(), num_rounds=3)
    newest = tmp_path / "run/checkpoints/000003/state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result = strategy_in(tmp_path / "run").start(federation(), num_rounds=4)
    assert "is damaged" in caplog.text
    assert equal(result, strategy_in(None).start(federation(), num_rounds=4))


def test_a_cut_between_record_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round is done again, and its line is not there twice."""
    save = RunFolder.save_checkpoint

    def cut(folder: RunFolder, round_: int, *rest: Any) -> int:
        if round_ == 3:
            raise PowerCutError
        return save(folder, round_, *rest)

    monkeypatch.setattr(RunFolder, "save_checkpoint", cut)
    with pytest.raises(PowerCutError):
        strategy_in(tmp_path / "run").start(federation(), num_rounds=5)
    assert len(RunFolder(tmp_path / "run").records()) == 3
    monkeypatch.undo()
    again = strategy_in(tmp_path / "run")
    result = again.start(federation(), num_rounds=5)
    assert [r["round"] for r in again.records] == [1, 2, 3, 4, 5]
    assert equal(result, strategy_in(None).start(federation(), num_rounds=5))


def test_fewer_checkpoints(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PowerCutError):
        strategy_in(tmp_path / "run", checkpoint_every=2).start(
            cut_after(20, federation()), num_rounds=5
        )
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir()] == ["000002"]
    grid = federation()
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result = strategy_in(tmp_path / "run", checkpoint_every=2).start(grid, num_rounds=5)
    assert "Rounds 3 to 3 have no checkpoint" in caplog.text
    assert len(grid.asked) == 3 * 2 * NODES
    assert equal(result, strategy_in(None).start(federation(), num_rounds=5))


def test_the_population_stays_what_it_was(tmp_path: Path) -> None:
    """More nodes may be connected after a restart; SCAFFOLD must not change its scale."""
    first = strategy_in(tmp_path / "run", "scaffold", min_available_nodes=NODES)
    first.start(federation(), num_rounds=1)
    grid = InProcessGrid(client_app(NODES + 1), NODES + 1)
    again = strategy_in(tmp_path / "run", "scaffold")
    again.start(grid, num_rounds=2)
    assert first.server.population == again.server.population == NODES


def test_a_stale_summary_does_not_stay(tmp_path: Path) -> None:
    strategy_in(tmp_path / "run").start(federation(), num_rounds=1)
    with pytest.raises(PowerCutError):
        strategy_in(tmp_path / "run").start(cut_after(1, federation()), num_rounds=2)
    assert not (tmp_path / "run/summary.json").exists()


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot be made a folder"):
        strategy_in(tmp_path / "file").start(federation(), num_rounds=1)
    strategy_in(tmp_path / "run").start(federation(), num_rounds=1)
    about = tmp_path / "run/checkpoints/000001/state.json"
    told = {k: v for k, v in json.loads(about.read_text()).items() if k != "population"}
    about.write_text(json.dumps(told))
    with pytest.raises(FolderError, match="is of another strategy"):
        strategy_in(tmp_path / "run").start(federation(), num_rounds=2)


def test_a_server_opt_of_ones_own_that_is_no_dataclass(tmp_path: Path) -> None:
    class Halfway(ServerOpt):
        name = "halfway"

        def step(self, w: Any, proposal: Any, state: Any, client_lr: Any) -> Any:
            return (w + proposal) / 2, {}

    def strategy() -> Strategy:
        algorithm = Algorithm(server=Halfway())
        return Strategy(algorithm, new_model(), folder=tmp_path / "run")

    strategy().start(federation(), num_rounds=1)
    strategy().start(federation(), num_rounds=2)
    assert len(RunFolder(tmp_path / "run").records()) == 2


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    grid = federation()

    def second(node: int, reply: Message) -> Message:
        with pytest.raises(FolderError, match="in use by another process"):
            strategy_in(tmp_path / "run").start(federation(), num_rounds=1)
        return reply

    grid.tamper = second
    strategy_in(tmp_path / "run").start(grid, num_rounds=1)


def test_the_folder_is_a_runs(tmp_path: Path, fedfor: Cli) -> None:
    """Records and summary are the simulator's, and what a server tests itself is in them."""
    fedfor("run", "prior-shift", "--set", "rounds=1", "--out", tmp_path / "sim")
    simulated = RunFolder(tmp_path / "sim")
    strategy = strategy_in(tmp_path / "run", fraction_evaluate=0)
    strategy.start(
        federation(),
        num_rounds=4,
        evaluate_fn=lambda t, arrays: MetricRecord({"accuracy": t / 10, "loss": 1.0}),
    )
    folder = RunFolder(tmp_path / "run")
    records, summary = folder.records(), folder.summary()
    assert [r["accuracy"] for r in records] == [0.1, 0.2, 0.3, 0.4]
    assert summary is not None
    assert (summary["best"], summary["best_half"]) == (0.4, 0.2)
    assert summary["rejected"] == 0
    assert (simulated.summary() or {}).keys() - summary.keys() == {"rounds_to_target"}  # not set
    assert simulated.records()[0].keys() - records[0].keys() == {"classes"}  # clients do not tell
    table = fedfor("table", tmp_path / "run")[1]
    assert "| fedfor | **20.0** | **40.0** |" in table
    code, _, err = fedfor("table", tmp_path / "run", tmp_path / "sim")
    assert (code, "these runs have 1 and 4 rounds" in err) == (2, True)
    assert summary["up"] == sum(r["up"] for r in records)
    environment = json.loads((tmp_path / "run/environment.json").read_text())
    assert environment["engine"] == "flower"
    assert environment["fedfor"] == version


def test_one_table_for_runs_of_both_kinds(tmp_path: Path, fedfor: Cli) -> None:
    fedfor("run", "prior-shift", "--set", "rounds=2", "--out", tmp_path / "sim")
    fedavg = strategy_in(tmp_path / "fedavg", "fedavg")
    fedavg.start(federation(), num_rounds=2)
    code, out, _ = fedfor("table", tmp_path / "sim", tmp_path / "fedavg")
    assert code == 0
    header, _, *rows = out.splitlines()[:4]
    assert header.startswith("| algorithm | best to 1, % | best to 2, % | MiB down |")
    assert [row.split(" | ")[0] for row in rows] == ["| fedfor", "| fedavg"]
    assert f"{100 * max(r['accuracy'] for r in fedavg.records):.1f}" in rows[1]
    code, _, err = fedfor("table", tmp_path / "sim", "--format", "csv")
    assert (code, "are for results of 'fedfor reproduce'" in err) == (2, True)
    (tmp_path / "sim/summary.json").unlink()
    code, _, err = fedfor("table", tmp_path / "sim")
    assert (code, "holds no run that has ended" in err) == (2, True)
