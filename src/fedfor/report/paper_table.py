"""A study's table as Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Callable, Sequence

from ..errors import ConfigError
from ..paper.results import Results
from .paper_cells import Column, TableCell, Value, cells, columns

Cells = dict[str, list[TableCell]]


def paper_table(
    results: Results,
    against: str | None = None,
    gain_over: str | None = None,
    metrics: Sequence[str] | None = None,
    form: str = "markdown",
) -> str:
    """Means over seeds with the deviation, and the paper's beside them if asked for."""
    study = results.study
    if against is not None and study.table is None:
        raise ConfigError(f"--against paper: the paper has no numbers of {study.name}")
    shown = columns(results, metrics or study.metrics)
    table = cells(results, shown, against is not None, gain_over)
    return FORMS[form](results, shown, table)


def _markdown(results: Results, shown: Sequence[Column], table: Cells) -> str:
    lines = [
        "| | " + " | ".join(_barred(c.title) for c in shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for name, row in table.items():
        ours = [f"**{_text(c.ours)}**" if c.winner else _text(c.ours) for c in row]
        lines.append(f"| {_barred(name)} | " + " | ".join(ours) + " |")
        for title, texts in _beside(row):
            lines.append(f"| *{title}* | " + " | ".join(texts) + " |")
    return "\n".join([*lines, "", *_notes(results)])


def _barred(text: str) -> str:
    return text.replace("|", r"\|")


def _latex(results: Results, shown: Sequence[Column], table: Cells) -> str:
    head = " & ".join(_escaped(c.title) for c in shown)
    lines = [r"\begin{tabular}{l" + "c" * len(shown) + "}", r"\toprule", f" & {head} \\\\"]
    for name, row in table.items():
        ours = [
            rf"\textbf{{{_text(c.ours)}}}" if c.winner else _escaped(_text(c.ours)) for c in row
        ]
        lines += [r"\midrule", f"{_escaped(name)} & " + " & ".join(ours) + r" \\"]
        for title, texts in _beside(row):
            lines.append(rf"\quad\textit{{{title}}} & " + " & ".join(texts) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*lines, *(rf"{_escaped(note)}\\" for note in _notes(results))])


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "%_&#${}" else c) for c in text)


def _csv(results: Results, shown: Sequence[Column], table: Cells) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = ("mean", "deviation", "paper_mean", "paper_deviation", "difference", "joint_units")
    writer.writerow(["row", "point", "metric", *titles, "words", "data"])
    data = "; ".join(results.notes)
    for name, row in table.items():
        for cell, column in zip(row, shown, strict=True):
            ours, paper = cell.ours, cell.paper or Value(None)
            both = ours.mean is not None and paper.mean is not None
            numbers = (
                ours.mean,
                ours.deviation,
                paper.mean,
                paper.deviation,
                (ours.mean or 0) - (paper.mean or 0) if both else None,
                cell.apart,
            )
            printed = ["" if n is None else f"{n:.4f}" for n in numbers]
            writer.writerow([name, column.point, column.metric, *printed, ours.words, data])
    return text.getvalue().rstrip("\n")


Form = Callable[[Results, Sequence[Column], Cells], str]
FORMS: dict[str, Form] = {"markdown": _markdown, "latex": _latex, "csv": _csv}


def _beside(row: list[TableCell]) -> list[tuple[str, list[str]]]:
    """The paper's line, and that of the differences, for rows that the paper has."""
    if all(cell.paper is None for cell in row):
        return []
    papers = ["-" if c.paper is None else _text(c.paper) for c in row]
    apart = ["-" if c.apart is None else f"{c.apart:+.1f}" for c in row]
    return [("paper", papers), ("difference, deviations", apart)]


def _text(value: Value) -> str:
    if value.mean is None:
        return value.words
    text = f"{value.mean:.1f}"
    if value.deviation is not None:
        text += f" ({value.deviation:.1f})"
    return text if value.seeds is None else f"{text} [{value.seeds} of the seeds]"


def _notes(results: Results) -> list[str]:
    """What must be said below every table."""
    seeds = sorted({o.seed for o in results.cells})
    devices = dict.fromkeys(str(made.get("device", "?")) for made in results.made)
    some = "Seed" if len(seeds) == 1 else "Mean (deviation) over seeds"
    return [
        f"{some} {', '.join(map(str, seeds))}; {len(results.cells)} runs, "
        f"{results.seconds:,.0f} s on {', '.join(devices)}.",
        *(f"Data: {note}." for note in results.notes),
        *(f"Not as the study is written: {changed}." for changed in results.study.changed),
    ]
