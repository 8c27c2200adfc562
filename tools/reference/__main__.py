"""Write the pages of docs/ that the code knows best: settings, commands, algorithms.

    python -m tools.reference            # write
    python -m tools.reference --check    # say whether something would change

Each page is made from docstrings and types alone; mend those, not the page.
"""

import argparse
import sys
from pathlib import Path

from .algorithms import algorithm_pages
from .cli import cli_page
from .config import config_page
from .markdown import MADE

DOCS = Path(__file__).parents[2] / "docs"


def pages() -> dict[Path, str]:
    """What each page should say."""
    return {
        DOCS / "reference/config.md": config_page(),
        DOCS / "reference/cli.md": cli_page(),
        **{DOCS / f"algorithms/{name}.md": text for name, text in algorithm_pages().items()},
    }


def orphans(wanted: dict[Path, str]) -> list[Path]:
    """Pages that were made once, of what is no longer there."""
    return [p for p in DOCS.rglob("*.md") if p not in wanted and MADE in p.read_text("utf-8")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wanted = pages()
    old = [p for p, text in wanted.items() if not p.is_file() or p.read_text("utf-8") != text]
    gone = orphans(wanted)
    if check and (old or gone):
        names = ", ".join(str(p.relative_to(DOCS.parent)) for p in [*old, *gone])
        sys.exit(f"old: {names}; run: python -m tools.reference")
    if not check:
        for path in old:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        for path in gone:
            path.unlink()


if __name__ == "__main__":
    main()
