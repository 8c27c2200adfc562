"""The table of run folders, simulated or of a Flower federation: they hold the same records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FolderError
from ..experiments.comparison import Summaries
from ..experiments.folder import RunFolder
from .table import best_columns, byte_columns, domain_columns, markdown


def are_runs(paths: Sequence[Path]) -> bool:
    """Whether these are folders of runs, not results of a study."""
    return any(RunFolder(path).rounds_path.is_file() for path in paths)


def runs_table(paths: Sequence[Path]) -> str:
    """In Markdown; runs of one algorithm are seeds of it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        summary = RunFolder(path).summary()
        if summary is None:
            raise FolderError(f"{path} holds no run that has ended; it has no summary.json")
        found.setdefault(str(summary["algorithm"]), []).append(summary)
    lengths = {summary["rounds"] for runs in found.values() for summary in runs}
    if len(lengths) > 1:
        told = " and ".join(map(str, sorted(lengths)))
        raise ConfigError(f"these runs have {told} rounds; only runs of one length go in a table")
    rounds = lengths.pop()
    results = [Summaries(label, runs, len(runs)) for label, runs in found.items()]
    shown = [*best_columns(max(1, rounds // 2), rounds), *byte_columns()]
    text = markdown(results, shown)
    by_domain = domain_columns(results)
    return text + ("\n" + markdown(results, by_domain) if by_domain else "")
