import pytest
import torch
from torch import nn

import fedfor


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
