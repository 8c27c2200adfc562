"""A notebook as Markdown: its words, its code and what it showed."""

import json
import re
from collections.abc import Iterator
from typing import Any

from latex2mathml.converter import convert

EQUATION = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def notebook_markdown(text: str) -> str:
    return "\n\n".join(part for cell in json.loads(text)["cells"] for part in _cell(cell))


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield EQUATION.sub(_equation, _joined(cell["source"]))
    elif cell["cell_type"] == "code":
        yield fenced(_joined(cell["source"]), "python")
        for output in cell.get("outputs", ()):
            yield from _output(output)


def _equation(match: re.Match[str]) -> str:
    """In MathML, which browsers draw by themselves: a page needs no script for it."""
    return convert(match[1].strip(), display="block")


def _output(output: dict[str, Any]) -> Iterator[str]:
    """The richest form of it that a page can show."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        picture = _joined(data["image/png"]).replace("\n", "")
        yield f"![What the cell above draws](data:image/png;base64,{picture})"
    elif "text/markdown" in data:
        yield _joined(data["text/markdown"])
    elif words := _joined(data.get("text/plain", "")):
        yield fenced(words.rstrip(), "text")


def fenced(text: str, language: str) -> str:
    """In a fence that is longer than any run of ticks in the text."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{language}\n{text}\n{ticks}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
