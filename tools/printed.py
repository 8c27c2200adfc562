"""Put into a page what its commands print, so that no number in it is old.

    python -m tools.printed docs/results.md          # write
    python -m tools.printed docs/results.md --check  # say whether something would change

A block is a fence of `sh` with one command, followed by what it printed between two comments.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(
    r"(?P<head>```sh\n(?P<command>[^\n]+)\n```\n\n<!-- printed -->\n)"
    r".*?(?P<tail><!-- /printed -->)",
    re.DOTALL,
)


def filled(page: str) -> str:
    """The page with every block as its command prints it now."""

    def block(match: re.Match[str]) -> str:
        return f"{match['head']}\n{_output(match['command'])}\n\n{match['tail']}"

    return BLOCK.sub(block, page)


def _output(command: str) -> str:
    name, *arguments = shlex.split(command)
    # The interpreter that runs this, whichever environment it is in.
    module = ["-m", "fedfor"] if name == "fedfor" else []
    done = subprocess.run(
        [sys.executable, *module, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    path, *options = sys.argv[1:]
    page = Path(path).read_text(encoding="utf-8")
    new = filled(page)
    if options == ["--check"]:
        sys.exit(f"{path} is old; run: python -m tools.printed {path}" if new != page else 0)
    Path(path).write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
