"""Give the rows of a study the settings that won on a grid.

python -m tools.take_winners results/digits-tuning.json digits office-caltech
"""

import statistics
import sys
from importlib.resources import as_file, files
from pathlib import Path

from fedfor.errors import FedforError
from fedfor.experiments.comparison import split_commas
from fedfor.experiments.load import parse_value
from fedfor.paper.results import Results, load_results
from fedfor.paper.study import load_study

Kind = tuple[object, ...]


def kind(algorithm: str) -> Kind:
    """The same for algorithms that differ in the numbers of their settings alone."""
    name, *settings = split_commas(algorithm)
    pairs = [setting.partition("=") for setting in settings]
    return name, *((k, None if _is_number(v) else v) for k, _, v in sorted(pairs))


def _is_number(text: str) -> bool:
    return isinstance(parse_value(text), int | float)


def winners(results: Results) -> dict[Kind, str]:
    """For each kind of algorithm on the grid, the one that is best in the mean over points."""
    best: dict[Kind, tuple[float, str]] = {}
    for row in results.study.rows:
        means = [results.spread(point, row.name, "best").mean for point in results.points]
        mean = statistics.fmean(-1.0 if m is None else m for m in means)  # diverged: no winner
        of_kind = kind(row.algorithm)
        best[of_kind] = max(best.get(of_kind, (-1.0, "")), (mean, row.algorithm))
    return {of_kind: algorithm for of_kind, (_, algorithm) in best.items() if algorithm}


def take(text: str, won: dict[Kind, str], name: str) -> str:
    """A study's text with the winners in the places of others of their kind."""
    for row in load_study(name).rows:
        winner = won.get(kind(row.algorithm), row.algorithm)
        if winner != row.algorithm:
            print(f"{name}: {row.name}: {row.algorithm} -> {winner}")
            before, after = (
                f'name = "{row.name}", algorithm = "{a}"' for a in (row.algorithm, winner)
            )
            if text.count(before) != 1:
                sys.exit(
                    f"{name}: the row '{row.name}' is not written on one line; change it by hand"
                )
            text = text.replace(before, after)
    return text


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit("name a file of results and the studies that are to take its winners")
    try:
        won = winners(load_results([Path(sys.argv[1])]))
        for name in sys.argv[2:]:
            load_study(name)
            with as_file(files("fedfor.paper") / "studies" / f"{name}.toml") as path:
                path.write_text(take(path.read_text(encoding="utf-8"), won, name), encoding="utf-8")
    except FedforError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
