"""The table of `fedfor bench`."""

import datetime
import platform
from collections.abc import Sequence
from typing import Any

import torch
from rich.table import Table

from ..experiments.bench import Bench, Measured
from ..experiments.folder import device_name


def bench_table(results: Sequence[Measured], title: str) -> Table:
    table = Table(title=title)
    for column in ("model", "clients a round", "engine"):
        table.add_column(column, justify="right" if column == "clients a round" else "left")
    for column in ("images a second", "clients a second", "times serial", "seconds before"):
        table.add_column(column, justify="right")
    serial = {(r.model, r.cohort): r for r in results if r.engine == "serial"}
    for r in results:
        chosen = "" if r.engine != "auto" else ": serial" if r.together is None else ": vector"
        cells = [r.model, f"{r.cohort:,}", r.engine + chosen]
        if r.images_a_second is None or r.clients_a_second is None:
            table.add_row(*cells, r.problem or "-")
            continue
        base = serial.get((r.model, r.cohort))
        known = base is not None and base.images_a_second
        ratio = f"{r.images_a_second / known:.2f}" if known else "-"
        speeds = (f"{r.images_a_second:,.0f}", f"{r.clients_a_second:,.1f}")
        table.add_row(*cells, *speeds, ratio, f"{r.seconds_before:.1f}")
    return table


def bench_json(bench: Bench, results: Sequence[Measured], command: str) -> dict[str, Any]:
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "device": device_name(bench.device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "precision": bench.stacking.precision,
        "compile": bench.stacking.compile,
        "algorithm": bench.name,
        "samples_a_client": bench.samples,
        "batch_size": bench.batch,
        "results": [r.as_json() for r in results],
    }
