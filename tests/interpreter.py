"""Triton kernels on a GPU where there is one, else (with TRITON_INTERPRET=1) in its interpreter."""

import os
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed")

CUDA = torch.cuda.is_available()
if not CUDA and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU or TRITON_INTERPRET=1", allow_module_level=True)

DEVICE = "cuda" if CUDA else "cpu"


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the interpreter loop to a bound known at run time with NumPy 2.4 and later."""
    if CUDA:
        return
    module = triton.runtime.interpreter
    patch = module._patch_lang_tensor

    def patch_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(module, "_patch_lang_tensor", patch_index)
