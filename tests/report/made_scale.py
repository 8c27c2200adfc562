"""Results of `fedfor scale` made by hand, so that tests need not measure."""

from collections.abc import Sequence
from typing import Any

from fedfor.experiments.scale_costs import Cost
from fedfor.experiments.scale_machine import Machine
from fedfor.experiments.scale_plan import Case, Plan
from fedfor.experiments.scale_results import Made, Measured, ScaleResults, Worker

PARAMETERS = {
    "linear": 650,
    "mlp": 8_970,
    "cnn": 12_810,
    "resnet20": 271_834,
    "mine": 1_000_000,
}
MIB = 2**20


def made_plan(**changed: Any) -> Plan:
    """Base case: 10^10 clients, 100 of them a round, 4 workers, the model cnn."""
    settings: dict[str, Any] = {
        "populations": (10**3, 10**5, 10**7, 10**10),
        "cohorts": (10, 100, 1_000, 10_000),
        "workers": (1, 2, 4),
        "models": ("linear", "cnn", "resnet20"),
        "algorithm": "fedfor",
        "engine": "ray",
        "rounds": 3,
        "samples": 20,
        "batch": 10,
    }
    return Plan(**{**settings, **changed})


def made_measured(case: Case, **changed: Any) -> Measured:
    """A round takes 1 ms a client on one worker, less on more of them, more with larger models."""
    parameters = PARAMETERS[case.model]
    middle = 0.001 * case.cohort / (case.workers or 1) ** 0.9 * (parameters / 12_810) ** 0.7
    workers = [
        Worker(busy=0.9 - number / 20, clients=3 * case.cohort, memory=(500 + number) * MIB)
        for number in range(case.workers or 0)
    ]
    settings: dict[str, Any] = {
        "case": case,
        "parameters": parameters,
        "seconds": (1.25 * middle, middle, 0.9 * middle),
        "memory": 400 * MIB + 1000 * case.cohort,
        "memory_before": 390 * MIB,
        "workers": tuple(workers),
    }
    return Measured(**{**settings, **changed})


def made_failure(case: Case, problem: str) -> Measured:
    return Measured(case=case, parameters=PARAMETERS[case.model], problem=problem)


def made_cost(method: str = "fedfor", model: str = "mine", **changed: Any) -> Cost:
    """Of a million parameters: 4 MB, which FedFOR sends twice, and keeps no state of."""
    size = 4 * PARAMETERS[model]
    settings: dict[str, Any] = {
        "method": method,
        "model": model,
        "parameters": PARAMETERS[model],
        "model_bytes": size,
        "down": 2 * size,
        "down_silo": size,
        "up": size,
        "kept": 0,
        "server": 2 * size,
        "summing": 3 * size,
        "partial": 4 * size,
        "summed": 8,
        "seconds_fixed": 0.01,
        "seconds_a_reply": 0.002,
        "seconds_a_merge": 0.001,
    }
    return Cost(**{**settings, **changed})


def made_results(
    plan: Plan | None = None,
    failed: Sequence[Case] = (),
    problem: str = "it took longer than 900 s",
    costs: Sequence[Cost] = (),
    **made: Any,
) -> ScaleResults:
    """All cases of a plan; those that `failed` have the problem in place of figures."""
    plan = made_plan() if plan is None else plan
    results = ScaleResults(made=made_by_hand(**made), plan=plan, costs=list(costs))
    for case in plan.cases:
        results.put(made_failure(case, problem) if case in failed else made_measured(case))
    return results


def made_by_hand(**changed: Any) -> Made:
    settings: dict[str, Any] = {
        "command": "fedfor scale",
        "commit": "abc1234",
        "date": "2026-01-02",
        "machine": Machine(processor="Made CPU", cores=4, memory=8 * 2**30, platform="Linux"),
        "versions": {"python": "3.11.7", "torch": "2.9.0"},
    }
    return Made(**{**settings, **changed})
