"""How long a report of a large sweep takes, and how large it is.

    .venv/bin/python benchmarks/report.py

Makes folders of 60 runs of 200 rounds each (20 settings, three seeds, ten classes), then writes
their page in a process of its own, as `fedfor report` does, imports and all.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def extra(t: int) -> dict[str, object]:
    by_class = [t / 1001.7 + c / 100.3 for c in range(10)]
    return {"classes": by_class, "cosine": 1 / (t + 2.3), "opposing": 1 / (t + 1.1)}


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.report.made import made_comparison

    with tempfile.TemporaryDirectory() as scratch:
        labels = [f"fedfor,alpha={alpha},training.lr=0.4" for alpha in range(20)]
        sweep = made_comparison(Path(scratch) / "sweep", labels, seeds=3, rounds=200, extra=extra)
        page = Path(scratch) / "report.html"
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedfor", "report", str(sweep), "-o", str(page)], check=True
        )
        seconds = time.perf_counter() - began
        print(f"60 runs x 200 rounds: {seconds:.1f} s, {page.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
