"""Weights & Biases: offline, into the run's folder, unless WANDB_MODE says otherwise."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .numbers import fitting
from .protocol import Round, Run


class WeightsAndBiases:
    def start(self, run: Run) -> Mapping[str, str]:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline is offline
        import wandb

        given = {"algorithm": run.algorithm, "seed": run.seed}
        tags = [fitting(f"{key} {value}", r"[\n]", 64) for key, value in given.items() if value]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "fedfor"),
            id=(run.kept or {}).get("id"),
            resume="allow",
            mode=None if "WANDB_MODE" in os.environ else "offline",
            dir=str(run.folder),
            name=fitting(run.name, r"[\n]", 128),
            group=fitting(run.group, r"[\n]", 128),
            tags=tags,
            config=dict(run.config),
            reinit="create_new",  # a comparison has several at a time
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                x_disable_stats=True,  # they would be of this process, not of the one that trains
            ),
        )
        return {"id": self._run.id}

    def log(self, rounds: Sequence[Round]) -> None:
        for done in rounds:
            self._run.log(dict(done.numbers), step=done.number)

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self._run.summary.update(dict(summary or {}))
        has_failed = summary is None or "diverged" in summary
        self._run.finish(exit_code=int(has_failed))
