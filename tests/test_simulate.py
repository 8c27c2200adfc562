import pytest
import torch
from torch import nn

import fedfor

pytestmark = pytest.mark.fast


def test_five_lines() -> None:
    clients = fedfor.data.LongTail(fedfor.data.digits(), clients=10**10, seed=0, share=0.3)
    history = fedfor.simulate("fedfor", clients, "linear", rounds=5, epochs=2, lr=0.1)
    assert history.best is not None
    assert history.best > 0.5
    assert history.rounds_to(0.3) is not None
    assert history.rounds_to(1.0) is None
    assert len(history.accuracies) == len(history.records) == 5
    assert history.mean is not None


def test_ones_own_model_and_loss() -> None:
    clients = fedfor.data.iid_split(fedfor.data.digits(), 5, seed=0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    before = model[1].weight.detach().clone()

    def loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.multi_margin_loss(outputs, y)

    chosen = fedfor.algorithm("fedfor+fedavgm", alpha=2)
    history = fedfor.simulate(chosen, clients, model, rounds=3, loss=loss, lr=0.1)
    assert history.model is model
    assert not torch.equal(model[1].weight, before)


def test_repeats_to_the_bit() -> None:
    def weights() -> list[torch.Tensor]:
        clients = fedfor.data.iid_split(fedfor.data.digits(), 5, seed=0)
        history = fedfor.simulate("scaffold", clients, "cnn-bn", rounds=2, seed=4)
        return list(history.model.state_dict().values())

    torch.manual_seed(1)
    first = weights()
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, weights(), strict=True))


def test_diverging_raises() -> None:
    clients = fedfor.data.iid_split(fedfor.data.digits(), 5, seed=0)
    with pytest.raises(fedfor.DivergedError, match="fedavg diverged in round 1"):
        fedfor.simulate("fedavg", clients, "mlp", rounds=3, lr=1e30)


def test_names_are_all_there() -> None:
    for name in fedfor.__all__:
        assert getattr(fedfor, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fedfor.nothing  # noqa: B018
    assert dir(fedfor) == fedfor.__all__


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 0}, "rounds must be 1 or more"),
        ({"evaluate_every": 0}, "evaluate_every must be 1 or more"),
        ({"cohort": 6}, "cohort is 6 but the population has 5 clients"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"algorithm": "fedbn"}, "the model has none"),
        ({"training": fedfor.Training(), "lr": 0.5}, "give lr to Training, or alone"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(64, 3))}, "with 10 classes it must be"),
        ({"model": nn.Flatten()}, "outputs of shape (2, 64)"),
    ],
)
def test_mistakes_are_told(change: dict[str, object], words: str) -> None:
    clients = fedfor.data.iid_split(fedfor.data.digits(), 5, seed=0)
    call = {"algorithm": "fedavg", "model": "linear", "rounds": 1, **change}
    with pytest.raises(fedfor.ConfigError) as error:
        fedfor.simulate(population=clients, **call)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_a_client_opt_is_an_algorithm() -> None:
    clients = fedfor.data.iid_split(fedfor.data.digits(), 5, seed=0)
    history = fedfor.simulate(fedfor.algorithms.FedFOR(alpha=3), clients, "linear", rounds=1)
    with pytest.raises(fedfor.ConfigError, match="a target is a fraction"):
        history.rounds_to(80)
