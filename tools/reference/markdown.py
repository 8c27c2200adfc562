"""The little Markdown that the generated pages need."""

import re
from collections.abc import Iterable, Sequence

MADE = "<!-- made by python -m tools.reference; mend the docstrings, not this page -->"

_ARXIV = re.compile(r"\barXiv:(\d{4}\.\d{4,5})")
_PAGE = re.compile(r"\bdocs/([a-z-]+)\.md")


def page(title: str, *parts: str) -> str:
    """A page with the sign that it was made."""
    return "\n\n".join([f"# {title}", MADE, *(part for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing if it has no rows."""
    lines = [f"| {' | '.join(cell(c) for c in row)} |".replace("|  |", "| |") for row in rows]
    if not lines:
        return ""
    top = f"| {' | '.join(head)} |".replace("|  |", "| |")
    return "\n".join([top, "|" + "---|" * len(head), *lines])


def cell(text: str) -> str:
    """On one line, and without what would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    return f"`{text}`"


def shell(lines: Iterable[str]) -> str:
    return "\n".join(["```sh", *lines, "```"])


def linked(text: str, up: str) -> str:
    """With papers and pages as links; `up` leads from the page to docs/."""
    text = _ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
    return _PAGE.sub(rf"[\1]({up}\1.md)", text)
