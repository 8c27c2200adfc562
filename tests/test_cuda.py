"""The same runs on a GPU. Skipped, with this word, where there is none."""

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedfor.algorithms.sharing import buffers
from fedfor.data import LabelledData, Population, Samples
from fedfor.engines import SerialEngine, Training
from fedfor.engines.stacking import Precision, Stacking
from fedfor.engines.vector import Trainer, VectorEngine
from fedfor.engines.vector.fisher import Fisher
from fedfor.engines.vector.noise import Hashed
from fedfor.engines.vector.step import State
from fedfor.experiments.folder import RunFolder, sha256
from fedfor.experiments.run import run_in_folder, start_run
from fedfor.experiments.simulation import Simulation
from fedfor.experiments.together import drive_together
from fedfor.models import build_model, resnet20
from fedfor.protocol.moves import Moves
from fedfor.protocol.sums import sums_and_distances

from .engines.stacks import (
    ALGORITHMS,
    TRAINING,
    WITH_BATCH_NORM,
    assert_same,
    build,
    norm_cnn,
    ragged,
    reference,
    simulation,
)
from .experiments.test_run import config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(autouse=True)
def repeatable() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def run(path: Path, name: str, device: str, engine: str = "serial") -> RunFolder:
    folder = RunFolder(path)
    start_run(folder, config(name, f"device={device}", f"engine={engine}"))
    run_in_folder(folder)
    return folder


@pytest.mark.parametrize("engine", ["serial", "vector"])
@pytest.mark.parametrize(
    "name", ["fedfor", "fedprox", "fedcurv", "feddyn", "fedpd", "scaffold+fedbn", "fedfor+fedadam"]
)
def test_gpu_and_cpu_agree(tmp_path: Path, name: str, engine: str) -> None:
    cpu = run(tmp_path / "cpu", name, "cpu")
    gpu = run(tmp_path / "gpu", name, "cuda", engine)
    for ours, theirs in zip(gpu.records(), cpu.records(), strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.02)
        assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.02)
        for counted in ("up", "down_cross_device", "down_cross_silo", "state_bytes"):
            assert ours[counted] == theirs[counted]


@pytest.mark.parametrize("engine", ["serial", "vector"])
@pytest.mark.parametrize("name", ["fedfor", "scaffold", "fedadam", "fedbn"])
def test_resume_is_to_the_bit(tmp_path: Path, name: str, engine: str) -> None:
    unbroken = run(tmp_path / "unbroken", name, "cuda", engine)
    folder = RunFolder(tmp_path / "broken")
    start_run(folder, config(name, "device=cuda", f"engine={engine}"))

    def interrupt(record: dict[str, object]) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(folder, interrupt)
    run_in_folder(folder)
    assert sha256(folder.model_path) == sha256(unbroken.model_path)


def sweep_on_gpu(
    names: Sequence[str], clients: Population, leaves: int | None = None, **options: Any
) -> list[Simulation]:
    """Three rounds in float64, which our own kernels do not do: all else is as in any run.

    One run may leave after the first: its place in the stack is kept.
    """
    device = torch.device("cuda")
    model = build(norm_cnn).to(device)
    trainer = Trainer(model, torch.nn.functional.cross_entropy, device, Stacking(**options))
    shared = functools.partial(VectorEngine, trainer=trainer, device=device)
    runs = [simulation(shared, build(norm_cnn), name, TRAINING, clients) for name in names]
    for t in range(3):
        present = [r for i, r in enumerate(runs) if t == 0 or i != leaves]
        drive_together([r.steps() for r in present], lambda i, r: None)
    if leaves is not None:
        assert len(trainer._arenas) == 1
    return runs


@pytest.mark.parametrize("lanes", [None, 5], ids=["whole", "chunked"])
def test_captured_sweeps_are_the_serial_engine_on_a_cpu(lanes: int | None) -> None:
    """Ragged clients, padding, stacks that shrink."""
    names = ALGORITHMS + WITH_BATCH_NORM
    for name, run in zip(names, sweep_on_gpu(names, ragged(), lanes=lanes), strict=True):
        assert_same(run, reference(norm_cnn, name)[0])


def test_compiled_sweeps_are_the_serial_engine_on_a_cpu() -> None:
    """Training, Fisher diagonals and tests; after the first round, without one of the runs."""
    names = ("fedavg", "fedfor", "scaffold", "fedcurv", "fedfor+fedbn")
    clients = ragged((14,) * 6)
    with warnings.catch_warnings(record=True) as said:  # the compiler has warnings of its own
        warnings.simplefilter("always")
        runs = sweep_on_gpu(names, clients, leaves=2, compile="always")
    assert not [w for w in said if "torch.compile failed" in str(w.message)]
    for name, run in zip(names, runs, strict=True):
        if name == "scaffold":
            continue
        theirs = simulation(SerialEngine, build(norm_cnn), name, TRAINING, clients)
        for _ in range(3):
            theirs.round()
        assert_same(run, theirs)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_our_kernels_in_a_whole_step(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet20, large batches: our step is about as near to one in float64 as torch's."""
    training, clients = Training(batch_size=64, lr=0.05), ragged((60,) * 4)

    def moved(engine: Callable[..., Any], dtype: torch.dtype) -> torch.Tensor:
        run = simulation(engine, build(resnet20).to(dtype), "fedavg", training, clients)
        start = {name: w.double() for name, w in run.server.params.items()}
        run.round()
        moves = [(run.server.params[n].double() - w).flatten() for n, w in start.items()]
        return torch.cat(moves).cpu()

    exact = moved(functools.partial(SerialEngine, device="cuda"), torch.float64)
    vector = functools.partial(VectorEngine, device="cuda", stacking=Stacking(precision))
    ours = moved(vector, torch.float32) - exact
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", precision == "tf32")
    with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
        theirs = moved(functools.partial(SerialEngine, device="cuda"), torch.float32) - exact
    # In tf32, cuDNN leaves some of the convolutions in fp32; that rounding alone, done in float64,
    # is off by as much as we are.
    factor = 6 if precision == "tf32" else 3
    assert 0 < float(ours.norm()) < factor * float(theirs.norm()) < float(exact.norm())


@pytest.mark.parametrize(("precision", "near"), [("fp32", 1e-4), ("bf16", 0.03)])
@pytest.mark.parametrize("name", ["resnet20", "digits-net"])
def test_fisher_diagonals_of_whole_batches(name: str, precision: Precision, near: float) -> None:
    """By our kernels, beside single samples in float64."""
    shape, device = (3, 32, 32), torch.device("cuda")
    torch.manual_seed(0)
    model = build_model(name, shape, 10).to(device)
    data = LabelledData("noise", torch.randn(60, *shape), torch.arange(60) % 10, 10)
    samples = [Samples(data, np.arange(a, b)) for a, b in ((0, 7), (7, 40), (40, 60))]

    def fisher(model: torch.nn.Module, how: Precision) -> Fisher:
        trainer = Trainer(model, torch.nn.functional.cross_entropy, device, Stacking(how))
        stack = trainer.model
        row = stack.layout.row(dict(model.named_parameters()), stack.like).detach()
        held = {n: torch.stack([b] * 3) for n, b in buffers(model).items()}
        state = State(torch.stack([row] * 3), held, row.new_zeros(3))
        return Fisher(stack, state, samples, trainer.data, trainer.compiler)

    assert fisher(model, precision).can_square()
    ours = fisher(model, precision).of_batches().double()
    exact = fisher(copy.deepcopy(model).double(), "fp32").of_single_samples()
    assert 0 < float((ours - exact).norm()) < near * float(exact.norm())


@pytest.mark.parametrize("weights", [None, [1.0 + k % 3 for k in range(150)]])
def test_agreement_is_that_of_a_cpu_in_float64(weights: list[float] | None) -> None:
    """Also where TF32 is allowed, and where our kernel has found the lengths."""
    draw = torch.Generator().manual_seed(0)
    start, last = torch.randn(2, 40_000, generator=draw)
    ends = start + 1e-2 * (torch.randn(150, 40_000, generator=draw) - 0.2 * last)
    mean, figures = ends.mean(0), []
    torch.backends.cuda.matmul.allow_tf32 = True
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        began, move, went, to = (t.to(device, dtype) for t in (start, last, ends, mean))
        moves = Moves({"w": began}, {"w": move})
        _, known = sums_and_distances({"w": began}, {"w": went}, weights or [1] * 150)
        moves.add({"w": went}, weights, known)
        agreement = moves.agreement({"w": to}, sum(weights or [1] * 150))
        figures.append([float(number) for number in agreement.tensors])
    assert figures[1] == pytest.approx(figures[0], rel=1e-5)


def test_dropout_depends_on_nobody_else() -> None:
    """A client gets the same noise whoever is trained beside it, and other noise each step."""
    keys = torch.tensor([5, 6, 7], device="cuda")
    x = torch.ones(3, 200, 50, device="cuda")
    step = torch.tensor(3, device="cuda")
    together = Hashed(keys, step).draw(x, 0.3, (50,))
    alone = Hashed(keys[1:2], step).draw(x[1:2], 0.3, (50,))
    assert torch.equal(together[1:2], alone)
    assert together.mean().item() == pytest.approx(1, abs=0.02)
    assert (together == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    other = Hashed(keys, step + 1).draw(x, 0.3, (50,))
    assert (together == other).float().mean().item() == pytest.approx(0.58, abs=0.02)
