"""Run folders made by hand, like those that real runs leave, so that tests need not train."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedfor.experiments.comparison import safe
from fedfor.experiments.folder import FLOWER, RunFolder, write_json
from fedfor.experiments.metrics import summarise

MODEL_BYTES = 1000
CLIENTS = 10

Tables = dict[str, Any]


def rising(t: int) -> float:
    """0.5, 0.67, 0.75, ... of an accuracy."""
    return t / (t + 1)


def made_run(
    path: Path,
    *,
    algorithm: str = "fedavg",
    seed: int = 0,
    rounds: int = 5,
    planned: int | None = None,
    accuracy: Callable[[int], float | None] = rising,
    extra: Callable[[int], Mapping[str, Any]] = lambda t: {},
    settings: Mapping[str, Any] | None = None,
    target: float | None = None,
    cohort: Mapping[str, Any] | None = None,
    done: bool = True,
    diverged: bool = False,
    flower: bool = False,
) -> Path:
    """A run with so many rounds, of which `planned` were to be done.

    `accuracy` and `extra` say what is in the record of round t: extra fields come last, so that
    they can replace others. `settings` are tables of config.toml, put into those that are there.
    """
    folder, planned = RunFolder(path), planned or rounds
    path.mkdir(parents=True)
    config = flower_config(algorithm, seed, planned) if flower else plain_config(algorithm, seed)
    if not flower:
        config["rounds"] = planned
    if target is not None:
        config["evaluation"] = {**config.get("evaluation", {}), "target": target}
    for key, value in (settings or {}).items():
        whole = isinstance(value, Mapping) and isinstance(config.get(key), dict)
        config[key] = {**config[key], **value} if whole else value
    folder.write_config(config)
    write_json(path / "environment.json", {"fedfor": "0.1.0", "device": "cpu (made)"})
    if cohort is not None:
        write_json(path / "cohort.json", dict(cohort))
    for t in range(1, rounds + 1):
        folder.append({**made_record(t, accuracy(t)), **extra(t)})
    if done or diverged:
        records = folder.records()
        summary = {
            "algorithm": algorithm,
            "seed": seed,
            **summarise(records, planned, max(1, planned // 2), target),
            "seconds": float(rounds),
        }
        if diverged:
            summary["diverged"] = f"{algorithm} diverged in round {rounds + 1}: NaN"
        folder.finish(summary, None)
    return path


def made_record(t: int, accuracy: float | None) -> Tables:
    """A line of rounds.jsonl. A round that was not evaluated has neither accuracy nor loss."""
    tested = {} if accuracy is None else {"accuracy": accuracy, "loss": 2 * (1 - accuracy)}
    return {
        "round": t,
        "clients": CLIENTS,
        "up": CLIENTS * MODEL_BYTES,
        "local_steps": 20.0,
        "disagreement": 1 + 1 / t,
        "train_loss": 1 / t,
        "down_cross_device": CLIENTS * MODEL_BYTES * (1 if t == 1 else 2),
        "down_cross_silo": CLIENTS * MODEL_BYTES,
        "state_bytes": 0,
        "clients_with_state": 0,
        **tested,
        "seconds": 1.0,
    }


def plain_config(algorithm: str, seed: int) -> Tables:
    return {
        "seed": seed,
        "rounds": 5,
        "device": "cpu",
        "threads": 1,
        "engine": "auto",
        "precision": "fp32",
        "compile": "auto",
        "checkpoint_every": 1,
        "algorithm": {
            "name": algorithm,
            "sharing": "everything",
            "weighting": "uniform",
            "server": {"name": "average", "lr": 1.0},
        },
        "data": {"name": "digits"},
        "population": {
            "cohort": CLIENTS,
            "kind": "dirichlet",
            "clients": 100,
            "alpha": 0.1,
            "samples_per_client": 40,
            "min_samples": 1,
        },
        "model": {"name": "mlp"},
        "training": {"epochs": 5, "batch_size": 10, "lr": 0.4, "optimizer": "sgd", "options": {}},
        "evaluation": {"every": 1},
    }


def flower_config(algorithm: str, seed: int, rounds: int) -> Tables:
    return {
        FLOWER: {"rounds": rounds, "version": "1.41.0"},
        "seed": seed,
        "algorithm": {
            "label": algorithm,
            "client": f"{algorithm}()",
            "server": {"class": "Average", "lr": 1.0},
            "weighting": "uniform",
        },
        "model": {"weight": ["torch.float32", 10, 64]},
    }


def flower_extra(t: int) -> Tables:
    """What a record of a federation on Flower has more."""
    return {
        "form": "cross-device",
        "wire_down": 25 * MODEL_BYTES,
        "wire_up": 12 * MODEL_BYTES,
        "attempts": 1,
        "rejected": [{"node": "7", "why": "it sent NaN"}] if t == 2 else [],
    }


def made_comparison(
    path: Path, labels: Sequence[str] = ("fedavg", "fedfor"), seeds: int = 2, **run: Any
) -> Path:
    """A comparison of these labels; `run` goes to each made_run. Later labels do better."""
    path.mkdir(parents=True)
    compare = {"algorithms": list(labels), "seeds": list(range(seeds))}
    (path / "compare.toml").write_text(tomli_w.dumps({"compare": compare}), encoding="utf-8")
    for place, label in enumerate(labels):
        for seed in range(seeds):
            better = (place + 1) / len(labels) - seed / 100
            chosen = {"accuracy": lambda t, better=better: rising(t) * better, **run}
            made_run(
                path / "runs" / safe(label) / f"seed-{seed}", algorithm=label, seed=seed, **chosen
            )
    return path


def made_cohort(
    counts: Sequence[Sequence[int]], class_names: Sequence[str] | None = None
) -> Tables:
    """A cohort.json: for each client, its samples of each class."""
    return {
        "round": 1,
        "classes": len(counts[0]),
        "class_names": list(class_names) if class_names else None,
        "of": len(counts),
        "population": 100,
        "clients": [{"client": 7 * k, "counts": list(of)} for k, of in enumerate(counts)],
    }
