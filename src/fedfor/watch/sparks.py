"""Bars and learning curves of one line of characters each."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ..report.loading import LoadedRun
from ..report.methods import Method, methods_of
from ..report.sound import number
from .words import clean

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.,-~=+#"


def bar(done: int, of: int, width: int, ascii_only: bool = False) -> str:
    """How much is done, for those who see no colours too."""
    full = min(width, width * done // max(1, of))
    mark, rest = "#-" if ascii_only else "━┄"
    return mark * full + rest * (width - full)


def sparks(runs: Sequence[LoadedRun], width: int, ascii_only: bool = False) -> list[Text]:
    """The accuracy of each method by round, all to one scale. The first line is a title."""
    curves = [(method, _mean(method)) for method in methods_of(runs)]
    curves = [(method, curve) for method, curve in curves if curve]
    if not curves:
        return []
    names = [clean(", ".join(filter(None, (m.point, m.label)))) for m, _ in curves]
    name_width = min(max(map(cell_len, names)), max(8, width // 3))
    columns = max(4, width - name_width - len(" 100.0 ") - 1)
    rounds = max(max(curve) for _, curve in curves)
    low = min(min(curve.values()) for _, curve in curves)
    high = max(max(curve.values()) for _, curve in curves)
    title = f"accuracy, {100 * low:.1f} to {100 * high:.1f} %, to round {rounds}"
    lines = [Text(title, style="dim", no_wrap=True, overflow="ellipsis")]
    for name, (_, curve) in zip(names, curves, strict=True):
        drawn = _draw(curve, rounds, low, high, columns, ASCII if ascii_only else BLOCKS)
        last = 100 * curve[max(curve)]
        label = _fit(name, name_width, "." if ascii_only else "…")
        lines.append(Text(f"{label} {drawn} {last:.1f}", no_wrap=True, overflow="crop"))
    return lines


def _fit(name: str, width: int, mark: str) -> str:
    if cell_len(name) > width:
        name = set_cell_size(name, width - 1) + mark
    return set_cell_size(name, width)


def _mean(method: Method) -> dict[int, float]:
    """By round, over the runs that got there."""
    sums: dict[int, list[float]] = {}
    for run in method.runs:
        for record in run.records:
            if (value := number(record, "accuracy")) is not None:
                sums.setdefault(record["round"], []).append(value)
    return {t: sum(values) / len(values) for t, values in sorted(sums.items())}


def _draw(
    curve: dict[int, float], rounds: int, low: float, high: float, columns: int, marks: str
) -> str:
    """A mark for each column: the mean of the rounds in it, or blank where none was tested."""
    columns = min(columns, rounds)
    at: list[list[float]] = [[] for _ in range(columns)]
    for t, value in curve.items():
        at[(t - 1) * columns // rounds].append(value)
    steps = (len(marks) - 1) / (high - low) if high > low else 0.0
    return "".join(
        marks[round((sum(values) / len(values) - low) * steps)] if values else " " for values in at
    )
