"""Python runs this first in each process that a test starts, so that it starts sooner.

torch imports its compiler with the first optimizer, only to tell it that an optimizer must not be
compiled. That takes long, and is needless as long as nobody else imports the compiler.

Python also looks for garbage after every 700 new objects, which is often during imports.
"""

import functools
import gc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Function = Callable[..., Any]
COMPILER = "torch._dynamo"


def disable_later(disable: Function) -> Function:
    """In place of torch's `_disable_dynamo`."""

    def decorate(function: Function | None = None, recursive: bool = True) -> Function:
        if function is None:
            return functools.partial(decorate, recursive=recursive)
        plain, disabled = function, disable(function, recursive)

        @functools.wraps(plain)
        def called(*args: Any, **kwargs: Any) -> Any:
            return (disabled if COMPILER in sys.modules else plain)(*args, **kwargs)

        return called

    return decorate


def step_later(decorate: Function) -> Function:
    """In place of torch's `_use_grad_for_differentiable`, which breaks the graph as well."""

    def changed(step: Function) -> Function:
        as_in_torch = decorate(step)

        @functools.wraps(step)
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            if COMPILER in sys.modules:
                return as_in_torch(self, *args, **kwargs)
            import torch

            with torch.set_grad_enabled(self.defaults["differentiable"]):
                return step(self, *args, **kwargs)

        return called

    return changed


CHANGES: dict[str, tuple[str, Callable[[Function], Function]]] = {
    "torch._compile": ("_disable_dynamo", disable_later),
    "torch.optim.optimizer": ("_use_grad_for_differentiable", step_later),
}


class Finder:
    """Changes these modules as soon as they are there."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in CHANGES else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            function, change = CHANGES[name]
            if hasattr(module, function):  # not in every torch
                setattr(module, function, change(getattr(module, function)))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder)
gc.set_threshold(20_000)
