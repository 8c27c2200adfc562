"""Which version of the code a result comes from."""

import os
import subprocess
from pathlib import Path


def commit() -> str:
    """As git names it, or what $COMMIT says of a copy without git; empty where nobody knows."""
    if told := os.environ.get("COMMIT"):
        return told
    try:
        command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
