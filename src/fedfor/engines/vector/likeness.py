"""Whether two models are the same but for the weights and buffers that each client has its own."""

import hashlib
import io
import pickle
import types
from typing import Any

import torch
from torch import Tensor, nn

from ...algorithms.sharing import buffers, trainable


def likeness(model: nn.Module) -> str | None:
    """Equal, in one process, for models that can be trained in one stack.

    None for one that cannot be compared.
    """
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
            flat = obj.detach().cpu().contiguous().flatten()
            return "stays", kind, flat.view(torch.uint8).numpy().tobytes()
        if isinstance(obj, types.FunctionType):
            held = [cell.cell_contents for cell in obj.__closure__ or ()]
            given = (obj.__defaults__, obj.__kwdefaults__, vars(obj))
            return "function", id(obj.__code__), held, given
        if isinstance(obj, type):
            return "class", id(obj)  # it may be one that pickle does not find by its name
        return None
