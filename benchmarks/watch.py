"""How long after a round is written `fedfor watch` knows of it, with one run and with sixty.

    .venv/bin/python benchmarks/watch.py

A process of its own serves the folder, as for a browser, which asks once a second; here it is
asked all the time, so a page shows the round up to a second later.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROUNDS = 20


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.report.made import made_comparison

    with tempfile.TemporaryDirectory() as scratch:
        for runs in (1, 60):
            labels = [f"fedfor,alpha={alpha}" for alpha in range(runs)]
            sweep = Path(scratch) / f"sweep-{runs}"
            made_comparison(sweep, labels, seeds=1, rounds=100, planned=200, done=False)
            delays = watched(sweep)
            print(
                f"{runs} runs: half of {len(delays)} rounds are known after "
                f"{statistics.median(delays):.2f} s, all after {max(delays):.2f} s"
            )


def watched(sweep: Path) -> list[float]:
    from tests.report.made import made_record

    from fedfor.experiments.folder import RunFolder

    first = RunFolder(sorted(path.parent for path in sweep.rglob("rounds.jsonl"))[0])
    words = [sys.executable, "-m", "fedfor", "watch", str(sweep), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = said.split(" is shown at ")[1].split()[0]
        done, delays = rounds_done(url), list[float]()
        for t in range(101, 101 + ROUNDS):
            first.append(made_record(t, t / 1000))
            written = time.perf_counter()
            while rounds_done(url) == done:
                pass
            delays.append(time.perf_counter() - written)
            done += 1
        return delays
    finally:
        process.kill()
        process.communicate()


def rounds_done(url: str) -> int:
    with urllib.request.urlopen(f"{url}data.json") as answer:
        return int(json.loads(answer.read())["live"]["rounds_done"])


if __name__ == "__main__":
    main()
