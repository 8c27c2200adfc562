"""The vector engine gives the serial engine's numbers, in float64 to 1e-9."""

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedfor.algorithms import Algorithm, ClientOpt, Local, Named, algorithm
from fedfor.data import ConceptShift, DataSplit, LabelledData, Partition, Population
from fedfor.engines import SerialEngine, Training
from fedfor.engines.choose import make_engine
from fedfor.engines.vector import Trainer, VectorEngine
from fedfor.errors import ConfigError, DataError, DivergedError
from fedfor.experiments.simulate import simulate
from fedfor.experiments.simulation import Record, Simulation
from fedfor.experiments.together import drive_together
from fedfor.experiments.work import Evaluate, Train
from fedfor.models import build_model, linear, mlp, resnet20
from fedfor.tensors import Tensors

from ..conftest import made_data

ALGORITHMS = (
    "fedavg",
    "fedprox",
    "fedfor",
    "fedfor,clip=false",
    "fedcurv",
    "feddyn",
    "fedpd",
    "scaffold",
    "fedavgm",
    "slowmo",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "fedfor+fedadam",
    "fedfor,weighting=examples",
)
WITH_BATCH_NORM = ("fedbn", "fedfor+fedbn", "scaffold+fedbn", "fedcurv+fedavgm+fedbn")

RAGGED = (4, 18, 11, 25, 5, 12)
"""Samples of each client. With batches of 7, none has 2 in a batch: there batch norm gives -1 and
1 whatever the weights, their gradient is rounding noise, and so is the side on which FedFOR's
penalty, which jumps at 0, finds them."""


def norm_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """With one batch norm: a second would take out what the first one's bias adds wherever ReLU
    lets all of it through, a gradient of 0 up to rounding; see above."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, classes),
    )


def double(split: DataSplit) -> DataSplit:
    parts = [LabelledData(d.name, d.x.double(), d.y, d.classes) for d in (split.train, split.test)]
    return DataSplit(*parts)


def ragged(sizes: Sequence[int] = RAGGED, samples: int = 90) -> Partition:
    draw = np.random.default_rng(0)
    split = double(made_data(samples))
    return Partition(split, [draw.choice(samples, n, replace=False) for n in sizes])


def parse(text: str) -> Algorithm:
    name, *settings_ = text.split(",")
    values = {"false": False}
    options = dict(s.split("=") for s in settings_)
    return algorithm(name, **{k: values.get(v, v) for k, v in options.items()})


def simulation(
    engine: Callable[..., SerialEngine | VectorEngine],
    model: nn.Module,
    name: str,
    training: Training,
    population: Population,
    seed: int = 0,
) -> Simulation:
    model, chosen = copy.deepcopy(model), parse(name)
    worker = engine(model, chosen, training, seed)
    return Simulation(population, model, chosen, training, worker, cohort=4, seed=seed)


def build(make: Callable[..., nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return make((1, 8, 8), 3).double()


def everything(run: Simulation) -> Tensors:
    """All that a run is made of: the server's state and the clients'."""
    found = {f"{e}/{n}": t for e, ts in run.server.state().items() for n, t in ts.items()}
    for client in range(run.population.size):
        kept = run.store.get(client)
        for extra, tensors in (kept.extras if kept else {}).items():
            found |= {f"client {client}/{extra}/{name}": t for name, t in tensors.items()}
    return {name: t.cpu() for name, t in found.items()}


def assert_same(ours: Simulation, theirs: Simulation, tolerance: float = 1e-9) -> None:
    mine, reference = everything(ours), everything(theirs)
    assert mine.keys() == reference.keys()
    for name, tensor in reference.items():
        torch.testing.assert_close(mine[name], tensor, rtol=tolerance, atol=tolerance, msg=name)


def assert_same_records(ours: Sequence[Record], theirs: Sequence[Record]) -> None:
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine.keys() == reference.keys()
        for key, value in reference.items():
            close = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
            assert mine[key] == close, key


TRAINING = Training(epochs=2, batch_size=7, lr=0.05, lr_decay=0.9)


@functools.cache
def reference(make: Callable[..., nn.Module], name: str) -> tuple[Simulation, list[Record]]:
    run = simulation(SerialEngine, build(make), name, TRAINING, ragged())
    return run, [run.round() for _ in range(3)]


@pytest.mark.parametrize("lanes", [None, 5], ids=["whole", "chunked"])
@pytest.mark.parametrize("make", [mlp, norm_cnn, resnet20], ids=lambda m: m.__name__)
def test_a_sweep_of_all_algorithms_is_each_alone(
    make: Callable[..., nn.Module], lanes: int | None
) -> None:
    """Every algorithm and ServerOpt, ragged clients, in one stack, after three rounds."""
    names = ALGORITHMS + (() if make is mlp else WITH_BATCH_NORM)
    trainer = Trainer(build(make), nn.functional.cross_entropy, torch.device("cpu"), lanes=lanes)
    shared = functools.partial(VectorEngine, trainer=trainer)
    clients = ragged()
    runs = [simulation(shared, build(make), name, TRAINING, clients) for name in names]
    records: list[list[Record]] = [[] for _ in runs]
    for _ in range(3):
        drive_together([r.steps() for r in runs], lambda i, r: records[i].append(r))
    for name, run, of_run in zip(names, runs, records, strict=True):
        theirs, their_records = reference(make, name)
        assert_same(run, theirs)
        assert_same_records(of_run, their_records)


def both(
    model: nn.Module,
    name: str = "fedfor",
    training: Training = TRAINING,
    population: Population | None = None,
    rounds: int = 2,
    **options: object,
) -> tuple[Simulation, Simulation]:
    """The same run on the vector engine and on the serial one."""
    clients = ragged() if population is None else population
    vector = functools.partial(VectorEngine, **options)
    runs = [simulation(e, model, name, training, clients) for e in (vector, SerialEngine)]
    for run in runs:
        for _ in range(rounds):
            run.round()
    return runs[0], runs[1]


class Tokens(nn.Module):
    """Pixels as words: embedding, attention, layer norm, a residual, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = self.embedding((x.flatten(1)[:, ::8] * 4).long().clamp(-8, 7) + 8)
        attended, _ = self.attention(words, words, words, need_weights=False)
        words = self.norm(words + attended)
        words = words + self.second(torch.nn.functional.gelu(self.first(words)))
        return self.head(words.mean(dim=1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "group norm, depthwise, average pooling": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, padding="same"),
        nn.GroupNorm(2, 8),
        nn.Tanh(),
        nn.Conv2d(8, 8, 3, groups=8, dilation=2),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 3),
    ),
    "one dimension, transposed, instance norm": lambda: nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(1, 4, 5, stride=2),
        nn.InstanceNorm1d(4, affine=True),
        nn.ConvTranspose1d(4, 2, 3),
        nn.ELU(),
        nn.AdaptiveMaxPool1d(6),
        nn.Flatten(),
        nn.Linear(12, 3),
    ),
    "dropout of all kinds": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=False),
        nn.Dropout2d(0.4),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(96, 20),
        nn.Dropout(0.5, inplace=True),
        nn.Linear(20, 3),
    ),
    "batch norm in one dimension, without statistics": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 10, bias=False),
        nn.BatchNorm1d(10, affine=False),
        nn.LeakyReLU(),
        nn.Linear(10, 10, bias=False),
        nn.BatchNorm1d(10, track_running_stats=False),
        nn.Linear(10, 3),
    ),
    "embedding, attention, tied weights": Tokens,
    "frozen layers": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["fedavg", "fedfor,clip=false"])
def test_layers(kind: str, name: str) -> None:
    """Dropout too draws for a client what it would alone."""
    torch.manual_seed(0)
    model = MODELS[kind]().double()
    ours, theirs = both(model, name)
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        ("sgd", {"momentum": 0.5, "dampening": 0.3}),
        ("sgd", {"maximize": True, "weight_decay": 0.1}),
        ("adam", {}),
        ("AdamW", {"weight_decay": 0.1}),
        ("rmsprop", {"momentum": 0.5}),
        ("adagrad", {}),
    ],
)
def test_optimizers(optimizer: str, options: dict[str, float]) -> None:
    training = Training(epochs=2, batch_size=7, lr=0.01, optimizer=optimizer, options=options)
    assert_same(*both(build(mlp), "scaffold", training))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=4, max_size=7),
    batch=st.integers(1, 9),
    epochs=st.integers(1, 3),
    lanes=st.none() | st.integers(1, 5),
    name=st.sampled_from(["fedavg", "fedfor", "scaffold", "fedcurv", "fedprox+fedadam"]),
)
def test_any_cohort(
    sizes: list[int], batch: int, epochs: int, lanes: int | None, name: str
) -> None:
    training = Training(epochs=epochs, batch_size=batch, lr=0.05)
    clients = ragged(sizes)
    assert_same(*both(build(mlp), name, training, clients, lanes=lanes))


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(3, 20), min_size=4, max_size=6), batch=st.integers(3, 8))
def test_padding_never_touches_batch_norm(sizes: list[int], batch: int) -> None:
    """Statistics, running averages and gradients are over a client's own samples."""
    training = Training(epochs=2, batch_size=batch, lr=0.01)
    assert_same(*both(build(norm_cnn), "fedbn", training, ragged(sizes)), tolerance=1e-7)


def test_runs_with_different_labels_and_rates_in_one_stack() -> None:
    """Concept shift differs by seed; learning rates, batch sizes and epochs may differ too."""
    base = ragged()
    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    pairs = []
    for seed in range(3):
        training = Training(epochs=1 + seed, batch_size=4 + seed, lr=0.02 * (seed + 1))
        shifting = ConceptShift(base, seed, 0.9)
        pairs.append(
            [
                simulation(e, build(mlp, seed), "fedfor", training, shifting, seed)
                for e in (shared, SerialEngine)
            ]
        )
    for _ in range(3):
        drive_together([ours.steps() for ours, _ in pairs], lambda i, r: None)
    for ours, theirs in pairs:
        for _ in range(3):
            theirs.round()
        assert_same(ours, theirs)


def test_images_are_changed_alike() -> None:
    training = Training(epochs=2, batch_size=7, lr=0.05, augment=["flip", "crop=2", "rotate=20"])
    ours, theirs = both(build(norm_cnn), "fedavg", training)
    assert_same(ours, theirs)
    plain, _ = both(build(norm_cnn), "fedavg", TRAINING)
    assert not torch.equal(plain.server.params["0.weight"], ours.server.params["0.weight"])


class Undecided(nn.Module):
    """Looks at its numbers to decide what to do, which no stack of models can."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x.flatten(1))
        return y if y.sum() > 0 else -y


def test_a_model_that_cannot_be_stacked_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match=r"cannot train copies of Undecided together .*'serial'"):
        simulate("fedavg", population, Undecided(), rounds=1, engine="vector")
    with pytest.warns(UserWarning, match="one client after another, because the vector engine"):
        history = simulate("fedavg", population, Undecided(), rounds=1)
    assert len(history.records) == 1


def test_an_optimizer_that_mixes_weights_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])

    def make(parameters: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr)

    for optimizer, words in ((make, "that a function makes"), ("adafactor", "Adafactor, which")):
        with pytest.raises(ConfigError, match=f"cannot use .*{words}"):
            simulate("fedavg", population, "mlp", rounds=1, engine="vector", optimizer=optimizer)


@dataclass(frozen=True)
class Shrink(ClientOpt):
    """Pulls all weights by their common length: not elementwise."""

    name: ClassVar[str] = "shrink"

    def added_gradient(self, w: Tensor, w0: Tensor, x: Named, local: Local) -> Tensor:
        return w * (w - w0).norm()


def test_a_client_opt_that_is_not_elementwise_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match="cannot use shrink, whose added gradient"):
        simulate(Shrink(), population, "mlp", rounds=1, engine="vector")
    with pytest.warns(UserWarning, match="cannot use shrink"):
        simulate(Shrink(), population, "mlp", rounds=1)


def test_a_loss_that_is_no_mean() -> None:
    """It bears no padding, so only clients with like batches are trained together."""

    def weighted(outputs: Tensor, y: Tensor) -> Tensor:
        weight = torch.tensor([1.0, 2.0, 5.0]).to(outputs)
        return nn.functional.cross_entropy(outputs, y, weight=weight)

    runs = []
    for engine in (VectorEngine, SerialEngine):
        model, chosen = build(mlp), algorithm("fedfor")
        worker = engine(model, chosen, TRAINING, 0, weighted)
        clients = ragged((4, 18, 18, 4, 9, 18))
        runs.append(Simulation(clients, model, chosen, TRAINING, worker, cohort=6, seed=0))
        for _ in range(2):
            runs[-1].round()
    assert not runs[0].engine.trainer.model.pads  # type: ignore[attr-defined]
    assert_same(*runs)


def test_another_loss_with_ragged_clients() -> None:
    def hinge(outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.multi_margin_loss(outputs, y)

    runs = []
    for engine in (VectorEngine, SerialEngine):
        model, chosen = build(mlp), algorithm("fedfor")
        worker = engine(model, chosen, TRAINING, 0, hinge)
        runs.append(Simulation(ragged(), model, chosen, TRAINING, worker, cohort=4, seed=0))
        for _ in range(2):
            runs[-1].round()
    assert_same(*runs)


def test_batch_norm_cannot_train_on_one_sample(split: DataSplit) -> None:
    population = Partition(split, [np.arange(6), np.array([7])])
    with pytest.raises(DataError, match="client 1 has a single sample, and batch norm"):
        simulate("fedavg", population, "cnn-bn", rounds=1, engine="vector", batch_size=3)


def test_memory_that_runs_out_halves_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Trainer._train_together
    sizes: list[int] = []

    def short_of_memory(self: Trainer, tasks: Any, chunk: Any) -> Any:
        sizes.append(len(chunk.lanes))
        if len(chunk.lanes) > 1:
            raise torch.OutOfMemoryError("no more")
        return whole(self, tasks, chunk)

    theirs = simulation(SerialEngine, build(mlp), "fedfor", TRAINING, ragged())
    theirs.round()
    monkeypatch.setattr(Trainer, "_train_together", short_of_memory)
    ours = simulation(VectorEngine, build(mlp), "fedfor", TRAINING, ragged())
    ours.round()
    assert sizes == [4, 2, 1, 1, 2, 1, 1]
    assert_same(ours, theirs)


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    clients = ragged()
    trainer = Trainer(build(mlp), nn.functional.cross_entropy, torch.device("cpu"))
    shared = functools.partial(VectorEngine, trainer=trainer)
    trainings = [TRAINING, Training(epochs=3, lr=1e200), TRAINING]
    runs = [
        simulation(shared, build(mlp), name, training, clients)
        for name, training in zip(("fedavg", "fedavg", "fedprox"), trainings, strict=True)
    ]
    ended: dict[int, object] = {}
    drive_together([r.steps() for r in runs], ended.__setitem__)
    assert isinstance(ended[1], DivergedError)
    assert "sent model: NaN or infinity" in str(ended[1])
    assert all(isinstance(ended[i], dict) for i in (0, 2))


def test_the_random_state_of_the_caller_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3)).double()
    torch.random.set_rng_state(before)
    run = simulation(VectorEngine, model, "fedavg", TRAINING, ragged())
    run.round()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.random.set_rng_state(state)


def test_planning_ahead_changes_nothing() -> None:
    """Rounds planned ahead, as on a GPU, are the rounds that come."""
    plain = simulation(VectorEngine, build(mlp), "scaffold", TRAINING, ragged())
    ahead = simulation(VectorEngine, build(mlp), "scaffold", TRAINING, ragged())
    for _ in range(3):
        plain.round()
        steps = ahead.steps()
        work = next(steps)
        assert isinstance(work, Train)
        task = ahead.engine.task(work.message, work.jobs, work.ahead)  # type: ignore[union-attr]
        trainer = ahead.engine.trainer  # type: ignore[union-attr]
        for _, result in trainer.train([task]):
            work.take(result)
        trainer._plan_ahead([task])
        assert trainer._planned
        evaluated = next(steps)
        assert isinstance(evaluated, Evaluate)
        with pytest.raises(StopIteration):
            steps.send(ahead.engine.evaluate(evaluated.exams))
    assert_same(plain, ahead)


def test_traces_of_batches_of_all_sizes() -> None:
    """Many rounds of cohorts unlike each other: a trace is used again only where it holds."""
    training = Training(epochs=5, batch_size=7, lr=0.01)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        clients = ragged([int(n) for n in draw.choice([5, 12, 7, 20], 8)])
        assert_same(*both(build(linear), "fedavg", training, clients, rounds=8))


class Centred(nn.Module):
    """Takes the mean over the batch out, by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear((x - x.mean(0)).flatten(1))
        return y


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4, padding_idx=2)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = (x.flatten(1)[:, ::4] * 2).long().clamp(-4, 4) + 4
        y: Tensor = self.linear(self.embedding(words).mean(1))
        return y


@pytest.mark.parametrize("make", [Centred, Words], ids=lambda m: m.__name__)
def test_models_that_padding_would_change(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    assert_same(*both(make().double(), "fedavg"))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 3)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        y: Tensor = self.linear(x.flatten(1))
        return y


def test_models_that_would_be_trained_wrongly_are_refused(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 25)])
    sideways = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (8, 8)), nn.Flatten(0, 1), nn.Dropout())
    sideways.extend([nn.Linear(8, 3), nn.Unflatten(0, (-1, 8)), nn.Flatten(), nn.Linear(24, 3)])
    for model, words in (
        (Counting(), "a buffer that the forward replaces"),
        (sideways, "dropout on a tensor whose first axis is not the batch"),
    ):
        with pytest.raises(ConfigError, match=words):
            simulate("fedavg", population, model, rounds=1, engine="vector")
        with pytest.warns(UserWarning, match=words):
            simulate("fedavg", population, model, rounds=1)


def test_a_run_that_fails_leaves_those_beside_it_alone(split: DataSplit) -> None:
    """One run's client has a single sample, which batch norm cannot take."""
    trainer = Trainer(
        build_model("cnn-bn", (1, 8, 8), 3), nn.functional.cross_entropy, torch.device("cpu")
    )
    training = Training(batch_size=4)
    runs = []
    for sizes in ((8, 9, 6, 5), (8, 1, 6, 5), (7, 8, 9, 10)):
        model, chosen = build_model("cnn-bn", (1, 8, 8), 3), algorithm("fedavg")
        clients = Partition(split, [np.arange(n) for n in sizes])
        worker = VectorEngine(model, chosen, training, 0, trainer=trainer)
        runs.append(Simulation(clients, model, chosen, training, worker, cohort=4, seed=0))
    ended: dict[int, object] = {}
    drive_together([r.steps() for r in runs], ended.__setitem__)
    assert "client 1 has a single sample" in str(ended[1])
    assert all(isinstance(ended[i], dict) for i in (0, 2))


@pytest.mark.parametrize("lanes", [0, -3, 2.5, "4"])
def test_bad_lanes_are_told(split: DataSplit, lanes: Any) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.raises(ConfigError, match="lanes must be"):
        simulate("fedavg", population, "mlp", rounds=1, lanes=lanes)


def test_precision_without_the_vector_engine_is_told(split: DataSplit) -> None:
    population = Partition(split, [np.arange(10), np.arange(10, 20)])
    with pytest.warns(UserWarning, match="precision 'bf16' is the vector engine's"):
        simulate("fedavg", population, "mlp", rounds=1, engine="serial", precision="bf16")


def test_one_client_is_trained_alone(split: DataSplit) -> None:
    """A stack of one gains nothing."""
    model = build_model("mlp", (1, 8, 8), 3)
    sample = (split.train.x[:4], split.train.y[:4])
    for cohort, name in ((1, "serial"), (2, "vector")):
        made = make_engine(
            "auto", model, algorithm("fedavg"), TRAINING, 0, cohort=cohort, sample=sample
        )
        assert made.name == name
