"""How much memory there is in use, and how its lack is told."""

import os
import sys
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")
STATUS = Path("/proc/self/status")

OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "cannot allocate memory")


def resident_bytes() -> int:
    """What this process holds in memory; 0 where the system does not tell."""
    try:
        pages = int(STATM.read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int | None:
    """The most that this process has had in memory; None where the system does not tell."""
    try:
        # Not from getrusage: there a process begins with the peak of the one that has started it.
        lines = STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = next((line.split() for line in lines if line.startswith("VmHWM:")), None)
    return int(found[1]) * 1024 if found else _peak_of_unix()


def _peak_of_unix() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that memory ran out. Of a CPU's, torch tells in words alone."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in OUT_OF_MEMORY
    )
