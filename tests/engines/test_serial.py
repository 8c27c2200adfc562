import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedfor.algorithms import Algorithm, algorithm
from fedfor.data import DataSplit, Partition, iid_split
from fedfor.engines import Exam, Job, SerialEngine, Training, fisher_diagonal
from fedfor.errors import ConfigError, DataError
from fedfor.models import build_model, cnn, cnn_bn
from fedfor.protocol import Server

pytestmark = pytest.mark.fast


def engine(model: nn.Module, training: Training, name: str = "fedavg") -> SerialEngine:
    return SerialEngine(model, algorithm(name), training, seed=0)


def test_reads_like_algorithm_1(split: DataSplit) -> None:
    """ClientUpdate is E epochs of W <- W - eta grad L_k over shuffled batches, nothing else."""
    torch.manual_seed(0)
    model = cnn((1, 8, 8), 3)
    samples = iid_split(split, 2, 0).samples(1, 1)
    serial = engine(model, Training(epochs=2, batch_size=7, lr=0.1))
    message = Server("fedavg", model, 2).message()
    result = serial.client_update(message, Job(1, samples))

    from fedfor.engines.batches import plan_batches
    from fedfor.randomness import generator

    torch.manual_seed(0)
    plain = cnn((1, 8, 8), 3)
    for batch in plan_batches(len(samples), 7, 2, generator(0, "batches", 1, 1)):
        x, y = samples.batch(batch)
        loss = nn.functional.cross_entropy(plain(x), y)
        gradients = torch.autograd.grad(loss, list(plain.parameters()))
        with torch.no_grad():
            for p, g in zip(plain.parameters(), gradients, strict=True):
                p -= 0.1 * g
    for name, p in plain.named_parameters():
        torch.testing.assert_close(result.reply.model[name], p.detach())
    assert (result.reply.examples, result.reply.steps) == (30, 10)


def test_results_do_not_depend_on_who_was_trained_before(split: DataSplit) -> None:
    """Dropout, batch order and batch-norm statistics of a client are its own."""

    def net() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(cnn_bn((1, 8, 8), 8), nn.Dropout(0.5), nn.Linear(8, 3))

    population = iid_split(split, 4, 0)
    model = net()
    message = Server("fedbn", model, 4).message()
    serial = engine(model, Training(batch_size=8), "fedbn")
    jobs = [Job(k, population.samples(k, 1)) for k in range(4)]
    forward = {r.client: r for r in serial.train(message, jobs)}
    backward = {
        r.client: r
        for r in engine(net(), Training(batch_size=8), "fedbn").train(message, reversed(jobs))
    }
    for k in range(4):
        for name, tensor in forward[k].reply.model.items():
            assert torch.equal(tensor, backward[k].reply.model[name])
        a, b = forward[k].kept, backward[k].kept
        assert a is not None
        assert b is not None
        for name, tensor in a.extras["own_layers"].items():
            assert torch.equal(tensor, b.extras["own_layers"][name])


def test_the_random_state_of_the_caller_is_left_alone(split: DataSplit) -> None:
    model = cnn((1, 8, 8), 3)
    message = Server("fedavg", model, 1).message()
    state = torch.random.get_rng_state()
    engine(model, Training()).client_update(message, Job(0, iid_split(split, 1, 0).samples(0, 1)))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [("sgd", {"momentum": 0.9}), ("AdamW", {"weight_decay": 0.1}), ("rmsprop", {})],
)
def test_any_torch_optimizer(split: DataSplit, optimizer: str, options: dict[str, float]) -> None:
    model = cnn((1, 8, 8), 3)
    message = Server("fedfor", model, 1).message()
    training = Training(optimizer=optimizer, options=options)
    job = Job(0, iid_split(split, 1, 0).samples(0, 1))
    assert np.isfinite(engine(model, training, "fedfor").client_update(message, job).loss)


def test_an_optimizer_of_ones_own_is_made_fresh_each_time(split: DataSplit) -> None:
    made = []

    def make(parameters: object, lr: float) -> torch.optim.Optimizer:
        made.append(torch.optim.SGD(parameters, lr=lr, momentum=0.5))  # type: ignore[arg-type]
        return made[-1]

    model = cnn((1, 8, 8), 3)
    serial = engine(model, Training(optimizer=make))
    message = Server("fedavg", model, 1).message()
    job = Job(0, iid_split(split, 1, 0).samples(0, 1))
    before = len(made)
    first, second = (serial.client_update(message, job) for _ in range(2))
    assert len(made) == before + 2
    assert all(torch.equal(first.reply.model[n], second.reply.model[n]) for n in first.reply.model)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": "sdg"}, "did you mean 'sgd'"),
        ({"options": {"speed": 1}}, "training: sgd with options {'speed': 1}"),
        ({"options": {"momentum": -1}}, "Invalid momentum value"),
        ({"lr": 0}, "lr must be greater than 0"),
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"lr_decay": -1}, "lr_decay must be greater than 0"),
    ],
)
def test_bad_training_is_told(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        Training(**options)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_rates_decay_by_round() -> None:
    training = Training(lr=0.4, lr_decay=0.5)
    assert [training.lr_in(t) for t in (1, 2, 3)] == [0.4, 0.2, 0.1]


def test_evaluation_counts_every_sample(split: DataSplit) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.tensor([0.0, 1.0, 0.0]))

        def forward(self, x: Tensor) -> Tensor:
            return self.bias.expand(len(x), 3)

    model = Constant()
    exam = Exam(Server("fedavg", model, 1).model, split.test.all_rows())
    [score] = engine(model, Training()).evaluate([exam])
    share = (split.test.y == 1).float().mean().item()
    assert score.accuracy == pytest.approx(share)
    logits = torch.tensor([[0.0, 1.0, 0.0]]).expand(30, 3)
    expected = nn.functional.cross_entropy(logits, split.test.y).item()
    assert score.loss == pytest.approx(expected)


def test_batch_norm_cannot_train_on_one_sample(split: DataSplit) -> None:
    model = cnn_bn((1, 8, 8), 3)
    message = Server("fedavg", model, 1).message()
    lonely = Partition(split, [np.array([5])]).samples(0, 1)
    with pytest.raises(DataError, match="client 3 has a single sample, and batch norm"):
        engine(model, Training()).client_update(message, Job(3, lonely))


@pytest.mark.parametrize("make", [cnn, cnn_bn])
def test_fisher_is_the_mean_square_of_each_samples_gradient(split: DataSplit, make: object) -> None:
    torch.manual_seed(0)
    model: nn.Module = make((1, 8, 8), 3).double()  # type: ignore[operator]
    x, y = split.train.x[:10].double(), split.train.y[:10]
    fisher = fisher_diagonal(model, nn.functional.cross_entropy, x, y, chunk=4)
    assert model.training
    model.eval()
    expected = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for i in range(10):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            assert p.grad is not None
            expected[name] += p.grad.square() / 10
    for name, value in expected.items():
        torch.testing.assert_close(fisher[name], value, rtol=1e-9, atol=1e-12)


def test_unknown_models_are_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'cnn'"):
        build_model("cmn", (1, 8, 8), 3)
    with pytest.raises(ConfigError, match="height and width divisible by 4"):
        build_model("cnn", (64,), 3)
    with pytest.raises(ConfigError, match=r"gave a bool, not an nn\.Module"):
        build_model("operator:is_", (64,), 3)


def test_stateless_means_stateless() -> None:
    stateful = {"fedcurv", "feddyn", "fedpd", "scaffold"}
    for name in ("fedavg", "fedprox", "fedfor", *stateful):
        assert algorithm(name).stateless == (name not in stateful)
    assert not Algorithm(sharing="all-but-batch-norm").stateless


def test_fisher_with_tied_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    x, y = torch.randn(6, 4), torch.randint(4, (6,))
    fisher = fisher_diagonal(model, nn.functional.cross_entropy, x, y)
    assert set(fisher) == {"0.weight", "0.bias", "1.bias"}
