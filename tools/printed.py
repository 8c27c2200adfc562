"""Put into a page what its commands print, so that no number in it is old.

    python -m tools.printed docs/results.md          # write
    python -m tools.printed docs/results.md --check  # say whether something would change

A block is a fence of `sh` with one command, followed by what it printed between two comments.
"""

import argparse
import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

BEGIN, END = "<!-- printed -->", "<!-- /printed -->"
BLOCK = re.compile(
    rf"(?P<head>```sh\n(?P<command>[^\n]+)\n```\n\n{BEGIN}\n).*?(?P<tail>{END})", re.DOTALL
)


def filled(page: str) -> str:
    """The page with every block as its command prints it now."""

    def block(match: re.Match[str]) -> str:
        return f"{match['head']}\n{_output(match['command'])}\n\n{match['tail']}"

    made, count = BLOCK.subn(block, page)
    if not count or count != page.count(BEGIN) or count != page.count(END):
        sys.exit(
            f"{count} blocks, but {page.count(BEGIN)} times {BEGIN} and {page.count(END)} {END}"
        )
    return made


def _output(command: str) -> str:
    name, *arguments = shlex.split(command)
    if name == "fedfor":
        return _of_fedfor(arguments)
    if name != "python":
        sys.exit(f"{command}: only fedfor and python can be run")
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.strip()}")
    return done.stdout.strip()


def _of_fedfor(arguments: list[str]) -> str:
    """In this process, so that what all of them import is imported once."""
    from fedfor.cli import main

    out, before = io.StringIO(), sys.argv
    sys.argv = ["fedfor", *arguments]
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"fedfor {shlex.join(arguments)} ends with code {end.code}")
    finally:
        sys.argv = before
    return out.getvalue().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    if not chosen.page.is_file():
        sys.exit(f"there is no {chosen.page}")
    page = chosen.page.read_text(encoding="utf-8")
    new = filled(page)
    if chosen.check and new != page:
        sys.exit(f"{chosen.page} is old; run: python -m tools.printed {chosen.page}")
    if not chosen.check:
        chosen.page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
