"""The table of run folders, simulated or of a Flower federation: they hold the same records."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError, FolderError
from ..experiments.folder import RunFolder
from .loading import load_runs
from .methods import methods_of
from .table import best_columns, byte_columns, domain_columns, markdown


def are_runs(paths: Sequence[Path]) -> bool:
    """Whether these are folders of runs, not results of a study."""
    return any(RunFolder(path).rounds_path.is_file() for path in paths)


def runs_table(paths: Sequence[Path]) -> str:
    """In Markdown; runs that differ in the seed alone are one method, as in the report."""
    runs = load_runs(paths)
    for run in runs:
        if run.summary is None:
            raise FolderError(f"{run.path} holds no run that has ended; it has no summary.json")
    lengths = {len(run.records) for run in runs}
    if len(lengths) > 1:
        told = " and ".join(map(str, sorted(lengths)))
        raise ConfigError(f"these runs have {told} rounds; only runs of one length go in a table")
    rounds, methods = lengths.pop(), methods_of(runs)
    shown = [*best_columns(max(1, rounds // 2), rounds), *byte_columns()]
    text = markdown(methods, shown)
    by_domain = domain_columns(methods)
    return text + ("\n" + markdown(methods, by_domain) if by_domain else "")
