"""Give the rows of a study the settings that won on a grid.

python -m tools.take_winners results/statefulness-tuning.json statefulness communication
"""

import statistics
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from fedfor.errors import ConfigError, FedforError, nearest
from fedfor.experiments.comparison import split_commas
from fedfor.experiments.load import parse_value
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import load_study, study_names

Kind = tuple[object, ...]


def kind(algorithm: str) -> Kind:
    """The same for algorithms that differ in the numbers of their settings alone."""
    name, *settings = split_commas(algorithm)
    pairs = [setting.partition("=") for setting in settings]
    return name, *((k, None if _is_number(v) else v) for k, _, v in sorted(pairs))


def _is_number(text: str) -> bool:
    value = parse_value(text)
    return isinstance(value, int | float) and not isinstance(value, bool)


def winners(results: Results) -> dict[Kind, str]:
    """For each kind of algorithm on the grid, the one that is best in the mean over points."""
    best: dict[Kind, tuple[float, str]] = {}
    seeds: dict[Kind, set[tuple[int, ...]]] = {}
    for row in results.study.rows:
        of_kind, means = kind(row.algorithm), []
        for point in results.study.points:
            means.append(results.spread(point.name, row.name, "best").mean)
            run = sorted(o.seed for o in results.of(point.name, row.name))
            seeds.setdefault(of_kind, set()).add(tuple(run))
        if len(seeds[of_kind]) > 1:
            raise ConfigError(
                f"{results.study.name}: '{row.name}' or one of its kind lacks seeds at some point"
            )
        mean = statistics.fmean(-1.0 if m is None else m for m in means)  # diverged: no winner
        best[of_kind] = max(best.get(of_kind, (-1.0, "")), (mean, row.algorithm))
    return {of_kind: algorithm for of_kind, (_, algorithm) in best.items()}


def take(text: str, won: dict[Kind, str], name: str) -> str:
    """A study's text with the winners in the places of others of their kind."""
    rows = [row for row in load_study(name).rows if kind(row.algorithm) in won]
    if not rows:
        raise ConfigError(f"{name} has no row of a kind that is on this grid")
    if len({kind(row.algorithm) for row in rows}) < len(rows):
        raise ConfigError(f"{name} is a grid itself: it has several rows of one kind")
    for row in rows:
        winner = won[kind(row.algorithm)]
        print(f"{name}: {row.name}: {winner} ({'as before' if winner == row.algorithm else 'new'})")
        before, after = (f'name = "{row.name}", algorithm = "{a}"' for a in (row.algorithm, winner))
        if text.count(before) != 1:
            raise ConfigError(
                f"{name}: '{row.name}' is not on a line of its own; change it by hand"
            )
        text = text.replace(before, after)
    return text


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2:
        sys.exit("name a file of results and the studies that are to take its winners")
    try:
        won = winners(load_results([Path(arguments[0])]))
        for name in arguments[1:]:
            if name not in study_names():
                raise ConfigError(f"there is no study '{name}'; {nearest(name, study_names())}")
            with as_file(files("fedfor.paper") / "studies" / f"{name}.toml") as path:
                text = take(path.read_text(encoding="utf-8"), won, name)
                path.write_text(text, encoding="utf-8")
    except FedforError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
