"""Whether two models are the same but for the weights and buffers that each client has its own."""

import hashlib
import io
import pickle
import types
from typing import Any

from torch import Tensor, nn

from ...algorithms.sharing import buffers, trainable


def likeness(model: nn.Module) -> str | None:
    """Equal for models that can be trained in one stack; None for one that cannot be compared."""
    written = io.BytesIO()
    try:
        _Pickler(written, model).dump(model)
    except Exception:  # whatever a user's object says when it is pickled
        return None
    return hashlib.sha256(written.getvalue()).hexdigest()


class _Pickler(pickle.Pickler):
    """Writes all that a model is made of; of what travels, only the name and the kind."""

    def __init__(self, file: io.BytesIO, model: nn.Module) -> None:
        super().__init__(file, protocol=5)
        travels = {**trainable(model), **buffers(model)}
        self._names = {id(t): name for name, t in travels.items()}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            kind = (tuple(obj.shape), str(obj.dtype), obj.requires_grad)
            if id(obj) in self._names:
                return "travels", self._names[id(obj)], kind
            return "stays", kind, obj.detach().cpu().contiguous().numpy().tobytes()
        if isinstance(obj, types.FunctionType):
            return "function", obj.__module__, obj.__qualname__, obj.__code__.co_code
        return None
