"""The table of what each algorithm sends, keeps and costs."""

import inspect
import json

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..algorithms import PRESETS, Algorithm, ServerOpt, algorithm, settings
from ..algorithms.clientopt import ClientOpt
from ..protocol.compression import FORMS


def cost_row(chosen: Algorithm) -> list[str]:
    """Words for the extras, and the sizes in models: down (device, silo), up, kept.

    In models of float32, and without the scales of compressed extras.
    """
    client = chosen.client
    own = ["bn"] if chosen.sharing == "all-but-batch-norm" else []
    bits = {extra: FORMS[form].bits for extra, form in client.sent_as.items()}
    sizes = {extra: bits.get(extra, 32) / 32 for extra in client.down}
    silo = 1 + sum(size for extra, size in sizes.items() if extra != client.difference)
    return [
        "\n".join(client.down) or "-",
        "\n".join(client.up) or "-",
        "\n".join(client.keeps) or "-",
        f"{1 + sum(sizes.values()):.4g}",
        f"{silo:.4g}",
        f"{1 + len(client.up)}",
        "+".join([*([str(len(client.keeps))] if client.keeps else []), *own]) or "0",
    ]


def algorithms_table() -> Table:
    table = Table(box=SIMPLE_HEAD, caption_justify="left", padding=(0, 1))
    table.caption = (
        "down, up, kept: in models, per client and round; silo: down to a client\n"
        "that still has the last model; bn: its own batch-norm layers. Round 1 sends\n"
        "no extras. Parts combine: fedfor+fedadam, scaffold+fedbn.\n"
        "More on each: fedfor algorithms NAME"
    )
    table.add_column("name", no_wrap=True)
    for title in ("extras down", "extras up", "client keeps"):
        table.add_column(title)
    for title in ("down", "silo", "up", "kept"):
        table.add_column(title, justify="right", no_wrap=True)
    for name in PRESETS:
        table.add_row(name, *cost_row(algorithm(name)))
    return table


def describe(name: str) -> str:
    """An algorithm's own words and its settings with their defaults."""
    chosen = algorithm(name)
    parts = [_words(chosen.client, "")]
    if chosen.server.name != "average":
        parts.append(_words(chosen.server, "server."))
    if chosen.sharing != "everything":
        parts.append("FedBN (Li et al., 2021): each client keeps its own batch-norm layers.")
    return "\n\n".join(parts)


def _words(part: ClientOpt | ServerOpt, prefix: str) -> str:
    shown = [f"    algorithm.{prefix}{k} = {json.dumps(v)}" for k, v in settings(part).items()]
    text = inspect.getdoc(type(part)) or ""
    return "\n".join([text, "", "Settings:", *shown]) if shown else text
