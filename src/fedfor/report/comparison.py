"""What a comparison leaves behind: a table on screen and in files, and a picture."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from ..experiments.comparison import AlgorithmResult, Comparison
from ..experiments.folder import write_atomically, write_json
from ..experiments.metrics import METRICS
from ..importing import told
from .page import write_page
from .table import columns, domain_columns, markdown, terminal

REPORT = "report.html"

NARROW = 100
"""Columns of text below which the table is cut in two."""


def write_report(comparison: Comparison, console: Console) -> None:
    """Show the table, and write table.md, comparison.json, report.html and curves.png."""
    results = comparison.results()
    if not any(result.summaries for result in results):
        return
    shown, by_domain = columns(comparison), domain_columns(results)
    seeds = len(comparison.config.seeds)
    title = f"{comparison.path.name}: {comparison.first.rounds} rounds, seeds: {seeds}"
    if console.width < NARROW:
        console.print(terminal(results, [c for c in shown if "MiB" not in c.title], title))
        console.print(terminal(results, [c for c in shown if "MiB" in c.title], "bytes"))
    else:
        console.print(terminal(results, shown, title))
    text = markdown(results, shown)
    if by_domain:
        console.print(terminal(results, by_domain, "accuracy by domain after the last round"))
        text += "\n" + markdown(results, by_domain)
    if notes := [*abandoned_notes(results), *data_notes(results)]:
        console.print("\n".join(notes), soft_wrap=True, highlight=False, markup=False)
        text += "\n" + "\n\n".join(notes) + "\n"
    write_atomically(comparison.path / "table.md", text.encode())
    write_json(comparison.path / "comparison.json", as_json(comparison, results))
    picture = _draw_curves(results, comparison.path / "curves.png")
    closing = f"{_closing(comparison.path, picture)}\n{_write_page(comparison.path)}"
    console.print(closing, soft_wrap=True, highlight=False, markup=False)


def _write_page(path: Path) -> str:
    """A word about it. Whatever goes wrong with a page, the runs are done and their table shown."""
    try:
        write_page([path], path / REPORT)
    except Exception as error:
        return f"{path / REPORT} could not be written: {told(error)}"
    return f"All of it as a page; open it with any browser: {(path / REPORT).absolute().as_uri()}"


def _draw_curves(results: list[AlgorithmResult], path: Path) -> str:
    """As 'fedfor plot curves' does, of the methods that got as far as a test; a word about it."""
    if find_spec("matplotlib") is None:
        return "for curves.png: pip install 'fedfor[report]'"
    from .loading import read_run
    from .methods import Method
    from .plots.asked import Asked, places_of
    from .plots.curves import draw_learning_curves
    from .plots.save import save
    from .sound import number

    methods = [Method(r.label, "", [read_run(run.folder.path) for run in r.runs]) for r in results]
    drawn = [
        m
        for m in methods
        if any(number(r, "accuracy") is not None for u in m.runs for r in u.records)
    ]
    if not drawn:
        return "no curves, as no run got as far as a test"
    words = "Means over seeds, bands: one deviation"
    asked = Asked(drawn, places_of(methods), width=6, title=words)
    save(draw_learning_curves(asked), path, dpi=200)
    return f"curves in {path}"


def _closing(path: Path, picture: str) -> str:
    files = f"{path}/table.md and comparison.json"
    command = "fedfor" if shutil.which("fedfor") else sys.argv[0]  # as the reader can type it
    return (
        f"Table in {files}, {picture}. Next: {command} compare covariate-shift -a fedbn "
        "-a fedfor+fedbn, or your own data: docs/data.md"
    )


def abandoned_notes(results: list[AlgorithmResult]) -> list[str]:
    """How many rounds came to nothing: the same for all methods, as they meet the same clients."""
    told = {}
    for result in results:
        for summary in result.summaries:
            took_part = summary.get("participation", {})
            told[summary["seed"]] = took_part.get("abandoned", 0), summary["rounds"]
    lost = sum(abandoned for abandoned, _ in told.values())
    rounds = sum(rounds for _, rounds in told.values())
    return [f"Abandoned: {lost} of {rounds} rounds of all seeds."] if lost else []


def data_notes(results: list[AlgorithmResult]) -> list[str]:
    """What must be said of the data below a table."""
    told = dict.fromkeys(n for r in results for s in r.summaries for n in s.get("notes", ()))
    return [f"Data: {note}." for note in told]


def as_json(comparison: Comparison, results: list[AlgorithmResult]) -> dict[str, Any]:
    """The numbers behind the table."""
    rows = []
    for result in results:
        spreads = {metric: result.spread(metric) for metric in METRICS}
        metrics = {
            metric: {"mean": s.mean, "deviation": s.deviation, "values": list(s.values)}
            for metric, s in spreads.items()
        }
        seeds = [run.seed for run in result.runs]
        rows.append(
            {"algorithm": result.label, "seeds": seeds, "diverged": result.diverged, **metrics}
        )
    config = comparison.first.model_dump(mode="json", exclude={"seed", "algorithm"})
    return {"config": config, "results": rows}
