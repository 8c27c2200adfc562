"""Which experiment of the paper a run repeats, so that its numbers can stand beside it."""

import functools
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FedforError
from ..paper.numbers import Reported, reported
from ..paper.study import load_study, study_names

HOW = ("seed", "device", "threads", "engine", "compile", "lanes", "checkpoint_every")
"""Settings that change nothing, but for rounding: runs that differ in these are seeds of one."""

ASIDE = (*HOW, "precision", "evaluation")
"""Settings that the paper does not have, or that are looked at one by one."""


@dataclass(frozen=True)
class Preset:
    table: str | None
    method: str | None
    """As the paper's table calls it."""
    epochs: int
    rounds: int
    target: float | None

    def reported(self, metric: str, half: int, target: float | None) -> Reported | None:
        """The paper's number, accuracies in %, for the same rounds and the same target."""
        if self.table is None or self.method is None:
            return None
        if metric == "rounds_to_target" and target != self.target:
            return None
        up_to = half if metric == "best_half" else self.rounds
        return reported(self.table, self.method, self.epochs, metric, up_to)


def preset_of(config: Mapping[str, Any]) -> Preset | None:
    data = config.get("data")
    if not isinstance(data, Mapping) or data.get("name") not in {d for d, _ in _presets()}:
        return None
    return _presets().get((str(data["name"]), fingerprint(config, ASIDE)))


def fingerprint(config: Mapping[str, Any], without: Sequence[str] = HOW) -> str:
    """The same for runs that differ in nothing but the seed and how they were run."""
    kept = {k: v for k, v in config.items() if k not in without}
    return json.dumps(kept, sort_keys=True, default=str)


@functools.cache
def _presets() -> dict[tuple[str, str], Preset]:
    """Every cell of the paper's tables that a study repeats, by its data and settings."""
    found = {}
    with warnings.catch_warnings(action="ignore"):  # of training, which is not what we are here for
        for name in study_names():
            study = load_study(name)
            if study.table is None:
                continue
            papers = {row.name: row.paper for row in study.rows}
            try:
                cells = study.with_seeds(1).cells(Path())
            except FedforError:
                continue
            for cell in cells:
                if (paper := papers[cell.label]) is not None:
                    config = cell.config.model_dump(mode="json", exclude_none=True)
                    key = config["data"]["name"], fingerprint(config, ASIDE)
                    one, target = cell.config, cell.config.evaluation.target
                    found[key] = Preset(study.table, paper, one.training.epochs, one.rounds, target)
    return found
