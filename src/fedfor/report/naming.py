"""Names for runs that have one label and are not the same."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .loading import LoadedRun
from .presets import HOW

NAMED = 3
"""Settings that a name may tell apart by; where more differ, the folder's name does."""


def apart(label: str, alike: Sequence[Sequence[LoadedRun]]) -> list[str]:
    """A name for each group of runs, no two the same."""
    if len(alike) == 1:
        return [label]
    on_flower = [group[0].on_flower for group in alike]
    if any(on_flower) and not all(on_flower):
        kinds = {True: f"{label} (Flower)", False: f"{label} (simulated)"}
        names = {
            kind: iter(apart(name, [g for g, f in zip(alike, on_flower, strict=True) if f == kind]))
            for kind, name in kinds.items()
        }
        return [next(names[kind]) for kind in on_flower]
    tables = [flat(group[0].config, without=("seed",)) for group in alike]
    keys = differing(tables)
    told = [[f"{key.rpartition('.')[2]}={t.get(key, 'none')}" for key in keys] for t in tables]
    names_told = [", ".join([label, *words]) for words in told]
    if len(keys) <= NAMED and len(set(names_told)) == len(names_told):
        return names_told
    return _counted([f"{label} ({place})" for place in _tails([g[0].path for g in alike])])


def _tails(paths: Sequence[Path]) -> list[str]:
    """As much of the ends of paths as tells them apart."""
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        tails = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(tails)) == len(set(paths)):
            break
    return tails


def _counted(names: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def flat(
    tables: Mapping[str, Any], prefix: str = "", without: Sequence[str] = HOW
) -> dict[str, Any]:
    """Settings by their full names, without those that only say how a run was run."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if prefix or key not in without:
            name = f"{prefix}{key}"
            found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that are not the same in all."""
    every = dict.fromkeys(key for table in tables for key in table)
    return [key for key in every if any(t.get(key) != tables[0].get(key) for t in tables)]
