"""Time and memory of a round against population, cohort, workers and model size.

Each case runs in a process of its own; what came of it is in the file before the next one starts.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import FolderError
from .folder import locked, occupied
from .own_process import PROBLEM, ask
from .scale_costs import Cost
from .scale_plan import Case, Plan
from .scale_results import RESULTS, Made, Measured, ScaleResults, Worker, load_scale

CASE, COSTS = (f"fedfor.experiments.scale_{name}" for name in ("case", "costs"))

SAME = ("commit", "machine", "versions")
"""What figures in one table must have in common."""

OnStart = Callable[[str], None]
OnEnd = Callable[[Measured], None]


def measure(
    plan: Plan,
    parameters: Mapping[str, int],
    path: Path,
    made: Made,
    limit: float,
    on_start: OnStart = lambda what: None,
    on_end: OnEnd = lambda measured: None,
) -> ScaleResults:
    """All of a plan that a folder does not have yet. A case that fails does not stop the others.

    `parameters` are those of each model, `limit` the seconds that a case may take.
    """
    if not (path / RESULTS).exists() and occupied(path):
        raise FolderError(f"{path} is not empty; choose another folder with --out")
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        results = _begun(path, plan, made)
        for case in plan.cases:
            done = results.of(case)
            if done is not None and done.problem is None:
                continue
            on_start(described(plan, case))
            measured = _measured(plan, case, parameters[case.model], limit)
            results.put(measured)
            results.save(path / RESULTS)
            on_end(measured)
        for model in plan.models:
            if not any(cost.model == model for cost in results.costs):
                on_start(f"what methods send, keep and sum of {model}")
                _add_costs(results, model, limit)
                results.save(path / RESULTS)
    return results


def _begun(path: Path, plan: Plan, made: Made) -> ScaleResults:
    """What is there already, if it can be gone on with."""
    if not (path / RESULTS).exists():
        results = ScaleResults(made=made, plan=plan)
        results.save(path / RESULTS)
        return results
    results = load_scale(path)
    if results.plan != plan:
        raise FolderError(f"{path} holds the figures of another plan; choose another with --out")
    for key in SAME:
        if getattr(results.made, key) != getattr(made, key):
            raise FolderError(
                f"{path} was begun with another {key.removesuffix('s')}, and figures of both do "
                "not belong in one table; choose another folder with --out"
            )
    return results


def described(plan: Plan, case: Case) -> str:
    """In a few words: what is not as in the base case."""
    values = [(axis, getattr(case, axis)) for axis in case.differs(plan.base)]
    words = [
        f"{axis} {value:,}" if axis != "model" else f"{axis} {value}" for axis, value in values
    ]
    return ", ".join(words) or "the base case"


def _measured(plan: Plan, case: Case, parameters: int, limit: float) -> Measured:
    asked = {"config": plan.config(case), "workers": case.workers, "rounds": plan.rounds}
    found = ask(CASE, asked, limit)
    if (problem := found.get(PROBLEM)) is not None:
        return Measured(case=case, parameters=parameters, problem=problem)
    return Measured(
        case=case,
        parameters=parameters,
        seconds=found["seconds"],
        memory=found["memory"],
        memory_before=found["memory_before"],
        workers=_workers(found["workers"]),
    )


def _workers(rounds: list[list[dict[str, Any]]]) -> tuple[Worker, ...]:
    """Over the counted rounds, worker by worker."""
    return tuple(
        Worker(
            busy=sum(told["busy"] for told in of_worker) / len(of_worker),
            clients=sum(told["clients"] for told in of_worker),
            memory=max(told.get("memory", 0) for told in of_worker),
        )
        for of_worker in zip(*rounds, strict=False)
    )


def _add_costs(results: ScaleResults, model: str, limit: float) -> None:
    found = ask(COSTS, {"model": model}, limit)
    results.problems.pop(model, None)
    if (problem := found.get(PROBLEM)) is not None:
        results.problems[model] = problem
    results.costs.extend(Cost.model_validate(cost) for cost in found.get("costs", ()))
