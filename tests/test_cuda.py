"""The same runs on a GPU. Skipped, with this word, where there is none."""

from pathlib import Path

import pytest
import torch

from fedfor.experiments.folder import RunFolder, sha256
from fedfor.experiments.run import run_in_folder, start_run

from .experiments.test_run import config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(autouse=True)
def repeatable() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def run(path: Path, name: str, device: str) -> RunFolder:
    folder = RunFolder(path)
    start_run(folder, config(name, f"device={device}"))
    run_in_folder(folder)
    return folder


@pytest.mark.parametrize(
    "name", ["fedfor", "fedprox", "fedcurv", "feddyn", "fedpd", "scaffold+fedbn", "fedfor+fedadam"]
)
def test_gpu_and_cpu_agree(tmp_path: Path, name: str) -> None:
    cpu, gpu = (run(tmp_path / device, name, device) for device in ("cpu", "cuda"))
    for ours, theirs in zip(gpu.records(), cpu.records(), strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.02)
        assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.02)
        for counted in ("up", "down_cross_device", "down_cross_silo", "state_bytes"):
            assert ours[counted] == theirs[counted]


@pytest.mark.parametrize("name", ["fedfor", "scaffold", "fedadam", "fedbn"])
def test_resume_is_to_the_bit(tmp_path: Path, name: str) -> None:
    unbroken = run(tmp_path / "unbroken", name, "cuda")
    folder = RunFolder(tmp_path / "broken")
    start_run(folder, config(name, "device=cuda"))

    def interrupt(record: dict[str, object]) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(folder, interrupt)
    run_in_folder(folder)
    assert sha256(folder.model_path) == sha256(unbroken.model_path)
