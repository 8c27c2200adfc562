"""Which experiment of the paper a run repeats, so that its numbers can stand beside it."""

import functools
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FedforError
from ..paper.numbers import Reported, reported
from ..paper.study import load_study, study_names

HOW = (
    "seed",
    "device",
    "threads",
    "engine",
    "precision",
    "compile",
    "lanes",
    "checkpoint_every",
    "evaluation",
)
"""Settings that do not make it another experiment."""


@dataclass(frozen=True)
class Preset:
    table: str | None
    method: str | None
    """As the paper's table calls it."""
    epochs: int
    rounds: int
    half: int

    def reported(self, metric: str) -> Reported | None:
        """The paper's number, accuracies in %."""
        if self.table is None or self.method is None:
            return None
        up_to = self.half if metric == "best_half" else self.rounds
        return reported(self.table, self.method, self.epochs, metric, up_to)


def preset_of(config: Mapping[str, Any]) -> Preset | None:
    data = config.get("data")
    if not isinstance(data, Mapping) or data.get("name") not in {d for d, _ in _presets()}:
        return None
    return _presets().get((str(data["name"]), fingerprint(config)))


def fingerprint(config: Mapping[str, Any]) -> str:
    """The same for runs that differ in nothing but the seed and how they were run."""
    kept = {k: v for k, v in config.items() if k not in HOW}
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
                    key = config["data"]["name"], fingerprint(config)
                    one = cell.config
                    found[key] = Preset(
                        study.table, paper, one.training.epochs, one.rounds, one.half
                    )
    return found
