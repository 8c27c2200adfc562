"""Run folders, written by hand."""

import json
from pathlib import Path
from typing import Any

import tomli_w

ODD = [
    "<b onclick='x()'>\"&amp;</b>",
    "emoji 🙂, ümlaut",
    "x" * 300,
    "x" * 300 + "y",
    "../..//a/./",
    "\ud800 half a character",
    "new\nline",
]


def record(number: int, **more: Any) -> dict[str, Any]:
    return {
        "round": number,
        "clients": 3,
        "up": 2**30 + number,
        "down_cross_device": 100,
        "down_cross_silo": 60,
        "accuracy": number / 10,
        "loss": None,
        "seconds": 0.5,
        **more,
    }


def odd_record(number: int) -> dict[str, Any]:
    domains = {name: place + number / 10 for place, name in enumerate(ODD)}
    rejected = [{"node": "5", "why": "NaN"}] * 2
    return record(number, domains=domains, classes=[0.5, None, 0.25], rejected=rejected)


def config(**more: Any) -> dict[str, Any]:
    training = {"lr": 0.1, "augment": ["flip"], "clip": True}
    return {"seed": 4, "algorithm": {"name": "fedfor", "alpha": 2}, "training": training, **more}


def write(folder: Path, records: list[dict[str, Any]], **more: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(tomli_w.dumps(config(**more)), encoding="utf-8")
    (folder / "rounds.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))


def append(folder: Path, *records: dict[str, Any]) -> None:
    with (folder / "rounds.jsonl").open("a") as file:
        file.write("".join(json.dumps(r) + "\n" for r in records))


def finish(folder: Path, **summary: Any) -> None:
    told = {"algorithm": "fedfor", "seed": 4, "best": 0.3, "rounds": 3, **summary}
    (folder / "summary.json").write_text(json.dumps(told))
