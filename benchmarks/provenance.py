"""Where a result comes from."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch


def provenance(module: str) -> dict[str, str | None]:
    """Command, commit, device, versions and date. Without git, $COMMIT says the commit."""
    try:
        where = Path(__file__).parent
        told = ["git", "-C", str(where), "describe", "--always", "--dirty"]
        commit = subprocess.run(told, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = os.environ.get("COMMIT")
    return {
        "command": " ".join(["python -m", module, *sys.argv[1:]]),
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
