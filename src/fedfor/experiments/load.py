"""From a TOML file, a bundled name and --set options to a checked config."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import ConfigError, nearest
from .config import RunConfig


def bundled_configs() -> dict[str, str]:
    """The configs that come with the package, by name."""
    folder = files("fedfor").joinpath("configs")
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".toml")
    }


def read_toml(source: str) -> dict[str, Any]:
    """The tables of a TOML file, or of a bundled config of that name."""
    bundled = bundled_configs()
    path = Path(source)
    if source in bundled and not path.is_file():
        text = bundled[source]
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as error:
            hint = nearest(source, bundled)
            raise ConfigError(
                f"there is no config file {source}; of the bundled, {hint}"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the config {source}: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error


def parse_value(text: str) -> Any:
    """A value as TOML writes it; what is no TOML value is a string."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def set_value(tables: dict[str, Any], assignment: str) -> None:
    """Apply one `section.key=value` in place."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {assignment}: write it as section.key=value")
    *path, last = key.strip().split(".")
    table = tables
    for part in path:
        inner = table.setdefault(part, {})
        if isinstance(inner, str) and part in ("algorithm", "server"):
            inner = table[part] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {assignment}: '{part}' is a value, not a table")
        table = inner
    value = parse_value(text.strip())
    if key.strip() == "population.kind" and value != table.get("kind"):
        # Another kind has other settings; what every kind has stays.
        for known in table.keys() - {"cohort", "concept_shift"}:
            del table[known]
    table[last] = value


def load_config(
    tables: Mapping[str, Any], assignments: Iterable[str] = (), source: str = "config"
) -> RunConfig:
    """A checked config, or one sentence about what is wrong with it."""
    tables = _copy(tables)
    for assignment in assignments:
        set_value(tables, assignment)
    tables.pop("compare", None)  # says what to compare, nothing about a run
    try:
        return RunConfig.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_sentence(error)}") from error


def _copy(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in tables.items()}


def _sentence(error: ValidationError) -> str:
    first, *more = error.errors()
    kinds = {"long-tail", "dirichlet", "shards", "iid", "domains"}
    place = [str(p) for p in first["loc"]]
    tagged = len(place) > 1 and place[0] == "population" and place[1] in kinds
    kind = place.pop(1) if tagged else ""
    where = ".".join(place)
    if first["type"] == "extra_forbidden":
        text = f"{where}: no such setting; {nearest(place[-1], _known(place[:-1], kind))}"
    elif first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        given = (first.get("ctx") or {}).get("tag", "nothing")
        text = f"population.kind cannot be '{given}'; {nearest(str(given), kinds)}"
    else:
        message = first["msg"].removeprefix("Value error, ")
        text = f"{message[0].lower()}{message[1:]}"
        if where:
            text = f"{where}: {text} (got {_shown(first['input'])})"
    return text + (f" (and {len(more)} more)" if more else "")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known(place: list[str], kind: str) -> Iterable[str]:
    """The settings that exist where one that does not was given."""
    model: Any = RunConfig
    for part in place:
        annotation = model.model_fields[part].annotation
        candidates = getattr(annotation, "__args__", (annotation,))
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        model = next((m for m in models if kind in str(m.model_fields.get("kind", ""))), models[0])
    return list(model.model_fields)
