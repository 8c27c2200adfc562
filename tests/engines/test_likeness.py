import functools

import pytest
import torch
from torch import nn

from fedfor.engines.vector.likeness import likeness
from fedfor.models import build_model

pytestmark = pytest.mark.fast


class Drawn(nn.Module):
    """Keeps something it drew, and neither as a parameter nor as a buffer."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 2)
        self.fixed = torch.randn(4)
        self.scale = scale


def built(seed: int, name: str = "cnn-bn") -> nn.Module:
    torch.manual_seed(seed)
    return build_model(name, (1, 8, 8), 3)


def test_weights_do_not_matter() -> None:
    assert likeness(built(0)) == likeness(built(1))
    assert likeness(built(0)) != likeness(built(0, "mlp"))


def test_all_else_does() -> None:
    one = likeness(Drawn(0))
    assert one == likeness(Drawn(0))
    assert one != likeness(Drawn(1))
    assert one != likeness(Drawn(0, scale=2.0))
    half = Drawn(0).to(torch.bfloat16)
    half.fixed = half.fixed.to(torch.bfloat16)
    assert likeness(half) not in (None, one)
    assert one != likeness(Drawn(0).double())
    frozen = Drawn(0)
    frozen.linear.bias.requires_grad_(False)
    assert one != likeness(frozen)


def test_what_a_function_holds_matters() -> None:
    def scaled(by: float) -> nn.Module:
        model = Drawn(0)
        model.act = lambda x: x * by  # type: ignore[assignment]
        return model

    assert likeness(scaled(2.0)) == likeness(scaled(2.0))
    assert likeness(scaled(2.0)) != likeness(scaled(3.0))


def test_classes_of_any_place() -> None:
    class Inner(Drawn):
        pass

    assert likeness(Inner(0)) == likeness(Inner(0))
    assert likeness(Inner(0)) != likeness(Drawn(0))


def test_models_that_cannot_be_compared() -> None:
    """Each is then trained in a stack of its own."""
    model = Drawn(0)
    model.hook = functools.partial(lambda x: x, (n for n in ()))  # type: ignore[assignment]
    assert likeness(model) is None
