from pathlib import Path

import pytest

from fedfor.tracking import tracking

from ..processes import HANG


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine where nobody has logged in to anything."""
    for name in (
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_TRACKING_URI",
        "WANDB_API_KEY",
        "WANDB_MODE",
        "WANDB_PROJECT",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "wandb-own"))
    monkeypatch.setattr(tracking, "PATIENCE", HANG)
