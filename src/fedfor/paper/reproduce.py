"""Run what is left of a study: in each process many runs as one stack."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ConfigError, FolderError
from ..experiments.build import Shared, build_simulation
from ..experiments.compare import Ended, run_bundles
from ..experiments.folder import locked, write_json
from ..experiments.run import CHANGEABLE
from .results import MADE, RESULTS, load_results
from .study import Cell, Study

LANES = 128
"""Clients that are trained together, about: enough to keep a GPU busy, few enough that little is
lost when it is taken away."""


def reproduce(
    study: Study,
    cells: Sequence[Cell],
    path: Path,
    workers: int,
    about: dict[str, str],
    on_end: Callable[[Ended], None] = lambda ended: None,
    on_tick: Callable[[], None] = lambda: None,
) -> list[Ended]:
    """Run the cells that have no result yet. One that fails does not stop the others.

    `about` is kept with each: the command and the commit that made it.
    """
    _require_same(cells)
    _require_joins(study, path / RESULTS)
    _require_possible([cell for cell in cells if cell.folder.summary() is None])
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        left = [cell for cell in cells if cell.folder.summary() is None]
        for cell in left:
            if not cell.folder.config_path.is_file():
                cell.folder.create(cell.config)
            write_json(cell.folder.path / MADE, about)
        return run_bundles(bundles(left), workers, on_end, on_tick)


def _require_same(cells: Sequence[Cell]) -> None:
    """Refuse a folder whose runs were made with other settings."""
    for cell in cells:
        if cell.folder.config_path.is_file():
            there, wanted = (
                config.model_dump(exclude={*CHANGEABLE} - {"rounds", "evaluation"})
                for config in (cell.folder.config(), cell.config)
            )
            if there != wanted:
                key = next(key for key in wanted if wanted[key] != there[key])
                raise FolderError(
                    f"{cell.folder.path} was run with another '{key}'; choose another folder with "
                    "--out"
                )


def _require_joins(study: Study, saved: Path) -> None:
    """Refuse a study whose results cannot go into the file that is there."""
    if saved.is_file():
        try:
            load_results([saved]).study.joined(study)
        except ConfigError as error:
            raise FolderError(f"{saved}: {error}; choose another folder with --out") from error


def _require_possible(cells: Sequence[Cell]) -> None:
    """Say what cannot work before anything has run: every algorithm once, at its first point."""
    shared, seen = Shared(), set()
    for cell in cells:
        if cell.label not in seen:
            seen.add(cell.label)
            build_simulation(cell.config, shared=shared)


def bundles(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Those that take as many steps are trained together, of as many seeds as make a good stack.

    All of one seed go together, so that what was compiled for one seed serves the next.
    """
    alike: dict[tuple[int, int], dict[int, list[Cell]]] = {}
    for cell in cells:
        steps = cell.config.training.epochs, cell.config.rounds
        alike.setdefault(steps, {}).setdefault(cell.seed, []).append(cell)
    found = []
    for by_seed in alike.values():
        groups = list(by_seed.values())
        lanes = max(sum(cell.config.population.cohort or 1 for cell in g) for g in groups)
        seeds = max(1, LANES // lanes)
        for i in range(0, len(groups), seeds):
            found.append([cell for group in groups[i : i + seeds] for cell in group])
    return found
