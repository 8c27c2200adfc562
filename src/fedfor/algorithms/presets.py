"""Algorithms by name: `fedfor`, `fedprox+fedbn`, `fedfor+fedadam`, ..."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import ConfigError, nearest
from ..importing import call, import_by_path
from .adaptive import FedAdagrad, FedAdam, FedYogi
from .algorithm import Algorithm, is_number, settings
from .average import Average
from .clientopt import ClientOpt
from .fedavg import FedAvg
from .fedcurv import FedCurv
from .feddyn import FedDyn
from .fedfor import FedFOR
from .fedpd import FedPD
from .fedprox import FedProx
from .momentum import FedAvgM, SlowMo
from .scaffold import Scaffold
from .serveropt import ServerOpt

Part = TypeVar("Part", ClientOpt, ServerOpt)

CLIENT_OPTS: dict[str, type[ClientOpt]] = {
    c.name: c for c in (FedAvg, FedProx, FedFOR, FedCurv, FedDyn, FedPD, Scaffold)
}
SERVER_OPTS: dict[str, type[ServerOpt]] = {
    s.name: s for s in (Average, FedAvgM, SlowMo, FedAdagrad, FedAdam, FedYogi)
}

# What each part of a name chooses. Parts are joined by "+".
PARTS: dict[str, dict[str, Any]] = {
    **{name: {"client": part()} for name, part in CLIENT_OPTS.items()},
    "fedfor-paper": {"client": FedFOR(alpha=5.0, strength="loss")},
    **{name: {"server": part()} for name, part in SERVER_OPTS.items()},
    "fedbn": {"sharing": "all-but-batch-norm"},
}

PRESETS: tuple[str, ...] = (
    "fedavg",
    "fedprox",
    "fedcurv",
    "feddyn",
    "fedpd",
    "scaffold",
    "fedfor",
    "fedfor-paper",
    "fedavgm",
    "slowmo",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "fedbn",
    "fedprox+fedbn",
    "fedcurv+fedbn",
    "feddyn+fedbn",
    "fedpd+fedbn",
    "fedfor+fedbn",
    "fedfor-paper+fedbn",
)
"""Every row of the paper's tables, and FedFOR by step beside each."""


def algorithm(name: str = "fedavg", **options: Any) -> Algorithm:
    """The algorithm of this name, with options of its parts changed.

    `algorithm("fedfor", alpha=3)`, `algorithm("fedfor+fedadam", server={"lr": 0.1})`,
    `algorithm("fedavg", weighting="examples")`, `algorithm("my_module:MyClientOpt")`.
    """
    chosen: dict[str, Any] = {}
    for part in name.split("+"):
        for key, value in _part(part).items():
            if key in chosen:
                raise ConfigError(
                    f"algorithm '{name}': '{part}' is a second choice of {key}; name one"
                )
            chosen[key] = value
    for key in ("sharing", "weighting"):
        if key in options:
            chosen[key] = options.pop(key)
    chosen["server"] = _server(chosen.get("server", Average()), options.pop("server", {}))
    chosen["client"] = _changed(chosen.get("client", FedAvg()), options, "algorithm.")
    return Algorithm(**chosen)


def as_algorithm(chosen: Algorithm | ClientOpt | str) -> Algorithm:
    """An algorithm from any way of naming one."""
    if isinstance(chosen, str):
        return algorithm(chosen)
    return Algorithm(client=chosen) if isinstance(chosen, ClientOpt) else chosen


def _part(name: str) -> dict[str, Any]:
    if ":" in name:
        part = import_by_path(name, "algorithm")
        instance = call(part, f"algorithm: {name}()") if isinstance(part, type) else part
        if isinstance(instance, ClientOpt):
            return {"client": instance}
        if isinstance(instance, ServerOpt):
            return {"server": instance}
        raise ConfigError(f"algorithm: {name} is neither a ClientOpt nor a ServerOpt")
    if name not in PARTS:
        raise ConfigError(f"algorithm '{name}' is not known; {nearest(name, PARTS)}")
    return PARTS[name]


def _server(preset: ServerOpt, options: Mapping[str, Any] | str) -> ServerOpt:
    if isinstance(options, str):
        options = {"name": options}
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"algorithm.server must be a name or a table of settings (got {options!r})"
        )
    options = dict(options)
    name = options.pop("name", None)
    if name is not None:
        part = _part(str(name)).get("server")
        if part is None:
            raise ConfigError(
                f"algorithm.server '{name}' is not a ServerOpt; known are: {', '.join(SERVER_OPTS)}"
            )
        preset = part
    return _changed(preset, options, "algorithm.server.")


def _changed(part: Part, options: Mapping[str, Any], where: str) -> Part:
    has = settings(part)
    for key in options:
        if key not in has:
            hint = nearest(key, has) if has else "it has no settings"
            raise ConfigError(f"{where}{key}: {part.name} has no such setting; {hint}")
        if is_number(has[key]) and not is_number(options[key]):
            raise ConfigError(f"{part.name}: {key} must be a number (got {options[key]!r})")
        if isinstance(has[key], bool) and not isinstance(options[key], bool):
            raise ConfigError(f"{part.name}: {key} must be true or false (got {options[key]!r})")
    return dataclasses.replace(part, **options)  # type: ignore[type-var]
