"""Where a result comes from."""

import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

import torch


def provenance(module: str) -> dict[str, str | None]:
    """Command, commit, device, versions and date. $COMMIT says the commit of a copy without git."""
    return {
        "command": shlex.join(["python", "-m", module, *sys.argv[1:]]),
        "commit": os.environ.get("COMMIT") or _commit(),
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _commit() -> str | None:
    try:
        told = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        return subprocess.run(told, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
