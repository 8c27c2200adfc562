"""Models by name. Each is a function of the samples' shape and the number of classes."""

from collections.abc import Callable, Sequence

from torch import nn

from ..errors import ConfigError, nearest
from ..importing import call, import_by_path
from .alexnet import alexnet_bn
from .digits_net import digits_net
from .resnet import resnet20
from .small import cnn, cnn_bn, linear, mlp

MODELS: dict[str, Callable[[Sequence[int], int], nn.Module]] = {
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
    "cnn-bn": cnn_bn,
    "resnet20": resnet20,
    "digits-net": digits_net,
    "alexnet-bn": alexnet_bn,
}


def build_model(name: str, shape: Sequence[int], classes: int) -> nn.Module:
    """A model by its name here, or by `package.module:function`, called with shape and classes."""
    if ":" in name:
        make = import_by_path(name, "model.name")
    elif name in MODELS:
        make = MODELS[name]
    else:
        raise ConfigError(f"model.name '{name}' is not known; {nearest(name, MODELS)}")
    model = call(make, f"model.name: {name}", tuple(shape), classes)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model.name: {name} gave a {type(model).__name__}, not an nn.Module")
    return model


__all__ = [
    "MODELS",
    "alexnet_bn",
    "build_model",
    "cnn",
    "cnn_bn",
    "digits_net",
    "linear",
    "mlp",
    "resnet20",
]
