"""How much memory there is in use, and how its lack is told."""

import os
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")

OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "cannot allocate memory")


def resident_bytes() -> int:
    """What this process holds in memory; 0 where the system does not tell."""
    try:
        pages = int(STATM.read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that memory ran out. Of a CPU's, torch tells in words alone."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in OUT_OF_MEMORY
    )
