"""docs/reference/config.md, from the models that check a config."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from fedfor.algorithms import CLIENT_OPTS, SERVER_OPTS, SHARINGS, Weighting, settings
from fedfor.experiments.config import RunConfig

from .markdown import code, page, table

Schema = Mapping[str, Any]

START = """\
A config is a TOML file. Every setting has a default, and `--set section.key=value` changes one for
a run. `fedfor configs` shows the bundled ones; a run's own folder has all settings spelled out, in
`config.toml`."""

COMPARE = """\
## compare

Read by `fedfor compare` alone: `compare.algorithms`, a list of names with settings, and
`compare.seeds`, how many or which. See [experiments](../experiments.md#settings)."""

WORDS = {
    "data": "More in [data](../data.md).",
    "population": "More in [how clients differ](../data.md#how-clients-differ).",
}


def config_page() -> str:
    schema = RunConfig.model_json_schema()
    fields = schema["properties"]
    sections = {name: _models(field, schema) for name, field in fields.items()}
    plain = {n: f for n, f in fields.items() if not sections[n] and n != "algorithm"}
    parts = ["## A run", _table("", plain), *_algorithm(fields["algorithm"])]
    for name, models in sections.items():
        if models:
            parts += [f"## {name}", *_section(name, models)]
    return page("Settings", START, *parts, COMPARE)


def _models(field: Schema, schema: Schema) -> list[Schema]:
    """The tables that a setting may hold: none for a plain value, several for a population."""
    refs = [field, *field.get("oneOf", ()), *field.get("anyOf", ())]
    names = [ref["$ref"].rsplit("/", 1)[-1] for ref in refs if "$ref" in ref]
    return [schema["$defs"][name] for name in names]


def _section(name: str, models: list[Schema]) -> Iterator[str]:
    if len(models) == 1:
        yield f"{models[0].get('description', '')} {WORDS.get(name, '')}".strip()
        yield _table(f"{name}.", models[0]["properties"])
        return
    kinds = [model["properties"]["kind"]["const"] for model in models]
    words = f"`{name}.kind` chooses among {', '.join(map(code, kinds))}."
    yield f"{words} {WORDS.get(name, '')}".strip()
    common = _common([model["properties"] for model in models])
    yield "Every kind has, unless it says otherwise:"
    yield _table(f"{name}.", common)
    for kind, model in zip(kinds, models, strict=True):
        yield f"### {kind}"
        yield model.get("description", "")
        own = {n: f for n, f in model["properties"].items() if common.get(n) != f and n != "kind"}
        yield _table(f"{name}.", own)


def _common(tables: list[Mapping[str, Schema]]) -> dict[str, Schema]:
    """The settings that are alike in most of the tables."""
    first = tables[0]
    return {n: f for n, f in first.items() if 2 * sum(t.get(n) == f for t in tables) > len(tables)}


def _algorithm(field: Schema) -> Iterator[str]:
    yield "## algorithm"
    yield (
        "A name, or a table of these. Each part has settings of its own; more on every one of "
        "them, and on names that join them by `+`, in [algorithms](../algorithms.md)."
    )
    name = field["default"]["name"]
    rows = [
        ("algorithm.name", name, "a name, or module:Class"),
        ("algorithm.server.name", "average", f"one of {', '.join(SERVER_OPTS)}, or module:Class"),
        ("algorithm.sharing", SHARINGS[0], " or ".join(SHARINGS)),
        ("algorithm.weighting", get_args(Weighting)[0], "clients count alike, or by `examples`"),
    ]
    yield table(
        ("setting", "default", ""), [(code(key), _value(v), words) for key, v, words in rows]
    )
    own = [
        (f"[{part.name}](../algorithms/{part.name}.md)", f"algorithm.{where}{key}", value)
        for where, parts in (("", CLIENT_OPTS), ("server.", SERVER_OPTS))
        for part in parts.values()
        for key, value in settings(part()).items()
    ]
    yield table(("of", "setting", "default"), [(of, code(key), _value(v)) for of, key, v in own])


def _table(prefix: str, fields: Mapping[str, Schema]) -> str:
    return table(
        ("setting", "default", "values", ""),
        [
            (code(prefix + name), _value(f.get("default")), _values(f), f.get("description", ""))
            for name, f in fields.items()
        ],
    )


def _value(value: Any) -> str:
    return "" if value is None else code(json.dumps(value))


def _values(field: Schema) -> str:
    """What may stand there, in words."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    return " or ".join(_kind(kind) for kind in kinds)


def _kind(kind: Schema) -> str:
    if "enum" in kind:
        return ", ".join(code(json.dumps(value)) for value in kind["enum"])
    if kind.get("format") == "path":
        return "path"
    if kind.get("type") == "array":
        return f"list of {_kind(kind.get('items', {}))}s"
    words = {"integer": "whole number", "number": "number", "string": "text", "object": "table"}
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {kind[key]:g}" for key, word in bounds.items() if key in kind]
    return ", ".join([words.get(kind.get("type", ""), "any"), *limits])
