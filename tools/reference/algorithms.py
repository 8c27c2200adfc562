"""docs/algorithms/NAME.md: a page for each ClientOpt, ServerOpt, Sharing and preset of one."""

import inspect
import json
from pathlib import Path
from types import ModuleType

from fedfor.algorithms import CLIENT_OPTS, SERVER_OPTS, ClientOpt, ServerOpt, algorithm, settings
from fedfor.algorithms import sharing as sharing_module
from fedfor.algorithms.algorithm import is_number
from fedfor.algorithms.presets import PARTS
from fedfor.report.algorithms import cost_row

from .docstrings import in_short, words_of, words_of_fields, words_of_name
from .markdown import code, linked, page, shell, table

ROOT = Path(__file__).parents[2]

CLIENT = """\
L_k is the loss of client k, w its weights, w0 the global model that the round began with.

`{name}` is a ClientOpt: it says what is added to the gradient at each local step. It goes with any
[ServerOpt and Sharing](../algorithms.md)."""
SERVER = """\
w is the global model, and mean w_k what the clients propose: their mean, unless the ClientOpt says
otherwise.

`{name}` is a ServerOpt: it says how the global model moves to what the clients propose. It goes
with any [ClientOpt and Sharing](../algorithms.md)."""
SHARING = """\
`fedbn` is a Sharing: it says what of a model travels at all. It goes with any
[ClientOpt and ServerOpt](../algorithms.md), and with models that have batch norm."""
PRESET = """`{name}` is [{of}]({of}.md) with other settings, {changes}: see there for all of it."""
COSTS = """\
In models, for each client and round; round 1 sends nothing beside the model. "In a silo" is down to
a client that still has the last model."""


def algorithm_pages() -> dict[str, str]:
    """The pages by name."""
    pages = {name: _client_page(part()) for name, part in CLIENT_OPTS.items()}
    pages |= {name: _server_page(part()) for name, part in SERVER_OPTS.items()}
    presets = [name for name in PARTS if name not in pages and "client" in PARTS[name]]
    pages |= {name: _preset_page(name, PARTS[name]["client"]) for name in presets}
    return pages | {"fedbn": _sharing_page()}


def _client_page(part: ClientOpt) -> str:
    return page(
        _title(part),
        linked(words_of(type(part)), "../"),
        CLIENT.format(name=part.name),
        *_settings(part, "algorithm."),
        *_costs(part.name),
        *_run(part.name, part, f"{part.name}+fedavgm"),
        *_measured(part.name),
        *_source(type(part)),
    )


def _server_page(part: ServerOpt) -> str:
    kept = " and ".join(code(k) for k in part.keeps)
    keeps = f"keeps {kept}, as large as the model" if kept else "keeps nothing"
    return page(
        _title(part),
        linked(words_of(type(part)), "../"),
        SERVER.format(name=part.name),
        *_settings(part, "algorithm.server."),
        "## What it costs",
        f"The server {keeps}. Clients get, send and keep nothing more for it.",
        *_run("fedavg" if part.name == "average" else part.name, part, f"fedfor+{part.name}"),
        *_measured(part.name),
        *_source(type(part)),
    )


def _sharing_page() -> str:
    row = (code("algorithm.sharing"), code('"all-but-batch-norm"'), "what `fedbn` stands for")
    return page(
        "FedBN",
        linked(words_of_name(sharing_module, "Sharing"), "../"),
        SHARING,
        "## Settings",
        table(("setting", "value", ""), [row]),
        *_costs("fedbn"),
        *_run("fedbn", None, "fedfor+fedbn", config="covariate-shift"),
        *_measured("fedbn"),
        *_source(sharing_module),
    )


def _preset_page(name: str, part: ClientOpt) -> str:
    plain = settings(type(part)())
    changes = [code(f"{k} = {json.dumps(v)}") for k, v in settings(part).items() if v != plain[k]]
    return page(
        f"{_title(part)}: {name}",
        linked(in_short(words_of(type(part))), "../"),
        PRESET.format(name=name, of=part.name, changes=" and ".join(changes)),
        *_settings(part, "algorithm."),
        *_costs(name),
        *_run(name, part, part.name),
        *_measured(name),
        *_source(type(part)),
    )


def _title(part: ClientOpt | ServerOpt) -> str:
    """As the docstring writes it: FedProx, SCAFFOLD."""
    first = words_of(type(part)).split()[0]
    return first if first.lower() == part.name else part.name.capitalize()


def _settings(part: ClientOpt | ServerOpt, prefix: str) -> list[str]:
    words = words_of_fields(type(part))
    rows = [
        (code(prefix + key), code(json.dumps(value)), words.get(key, ""))
        for key, value in settings(part).items()
    ]
    return ["## Settings", table(("setting", "default", ""), rows) or "It has none."]


def _costs(name: str) -> list[str]:
    down, up, keeps, *sizes = cost_row(algorithm(name))
    sizes[-1] = sizes[-1].replace("bn", "its batch-norm layers")
    extras = [cell.replace("\n", ", ") for cell in (down, up, keeps)]
    head = ("", "down", "down, in a silo", "up", "client keeps")
    beside = ("beside the model", extras[0], "", *extras[1:])
    return ["## What it costs", COSTS, table(head, [("in all", *sizes), beside])]


def _run(
    name: str, part: ClientOpt | ServerOpt | None, beside: str, config: str = "prior-shift"
) -> list[str]:
    """Commands to try it with: its first number halved, FedAvg and another beside it."""
    numbers = {k: v for k, v in settings(part).items() if is_number(v)} if part else {}
    where = "server." if isinstance(part, ServerOpt) else ""
    changed = [(f"{where}{key}", json.dumps(value / 2)) for key, value in numbers.items()][:1]
    run = [f"fedfor run {config} --set algorithm.name={name}"]
    run += [f"--set algorithm.{key}={value}" for key, value in changed]
    rows = ["fedavg", name, *(f"{name},{key}={value}" for key, value in changed), beside]
    compare = [f"-a {row}" for row in dict.fromkeys(rows)]
    lines = [" ".join(run), f"fedfor compare {config} {' '.join(compare)} --seeds 3"]
    return ["## Run it", shell(lines)]


def _measured(name: str) -> list[str]:
    """The result files that have it."""
    found = []
    for path in sorted((ROOT / "results").glob("*.json")):
        loaded = json.loads(path.read_text(encoding="utf-8"))
        rows = [row["algorithm"] for row in loaded.get("study", {}).get("rows", ())]
        rows += loaded.get("winners", {}).values()
        if any(_has(row, name) for row in rows):
            found.append(f"[{path.stem}](../../results/{path.name})")
    words = f"In {', '.join(found)}. What came of it: [results](../results.md)."
    return ["## Measured", words if found else "Not yet."]


def _has(row: str, name: str) -> bool:
    parts, _, changes = row.partition(",")
    if name == "average":  # as it is, it is in nearly all of them
        return "server.lr=" in changes and not set(parts.split("+")) & set(SERVER_OPTS)
    return name in parts.split("+")


def _source(thing: type | ModuleType) -> list[str]:
    path = Path(inspect.getsourcefile(thing) or "").relative_to(ROOT).as_posix()
    return ["## Source", f"[{path}](../../{path}), which is short."]
