"""MLflow: the store that MLFLOW_TRACKING_URI names, else MLflow's own default, a file mlflow.db in
the folder one starts from."""

import os
import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .numbers import fitting, summary_numbers
from .protocol import Round, Run

LONGEST_KEY, LONGEST_VALUE = 250, 5000
SETTINGS_AT_ONCE, NUMBERS_AT_ONCE = 100, 1000
"""More is refused."""


class MLflow:
    def start(self, run: Run) -> Mapping[str, str]:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        import mlflow

        self._last = run.first - 1
        if run.kept is not None:  # where the run began, whatever the store would be now
            mlflow.set_tracking_uri(run.kept["uri"])
            self._client, self._id = mlflow.MlflowClient(), run.kept["id"]
            self._client.update_run(self._id, status="RUNNING")
            return run.kept
        experiment = (
            os.environ.get("MLFLOW_EXPERIMENT_ID")
            or mlflow.set_experiment(
                os.environ.get("MLFLOW_EXPERIMENT_NAME") or "fedfor"
            ).experiment_id
        )
        self._client = mlflow.MlflowClient()
        tags = {"algorithm": run.algorithm, "seed": run.seed, "group": run.group}
        tags["folder"] = str(run.folder)
        self._id = self._client.create_run(
            experiment,
            run_name=run.name[:LONGEST_KEY],
            tags={key: value[:LONGEST_VALUE] for key, value in tags.items()},
        ).info.run_id
        params = [
            mlflow.entities.Param(_key(name), str(value)[:LONGEST_VALUE])
            for name, value in run.settings.items()
        ]
        for i in range(0, len(params), SETTINGS_AT_ONCE):
            self._client.log_batch(self._id, params=params[i : i + SETTINGS_AT_ONCE])
        return {"id": self._id, "uri": mlflow.get_tracking_uri()}

    def log(self, rounds: Sequence[Round]) -> None:
        self._log([(n, v, done.number) for done in rounds for n, v in done.numbers.items()])
        self._last = rounds[-1].number

    def end(self, summary: Mapping[str, Any] | None) -> None:
        if summary is None:
            self._client.set_terminated(self._id, "KILLED")
            return
        self._log([(n, value, self._last) for n, value in summary_numbers(summary).items()])
        for name, value in summary.items():
            if isinstance(value, str):
                self._client.set_tag(self._id, f"summary.{_key(name)}", value[:LONGEST_VALUE])
        self._client.set_terminated(self._id, "FAILED" if "diverged" in summary else "FINISHED")

    def _log(self, numbers: Sequence[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_key(name), float(value), now, step) for name, value, step in numbers]
        for i in range(0, len(metrics), NUMBERS_AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[i : i + NUMBERS_AT_ONCE])


def _key(name: str) -> str:
    """MLflow's names are paths of letters, digits and a few signs; on Windows, fewer still."""
    is_path = posixpath.normpath(name) == name and not name.startswith(("/", "."))
    return fitting(name, r"[^\w./ -]" if is_path else r"[^\w -]", LONGEST_KEY)
