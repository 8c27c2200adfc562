"""What the commands have in common."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import FedforError

if TYPE_CHECKING:
    from rich.console import Console


def _folder(text: str) -> Path:
    if not text.strip():  # as a path, it would be the current folder
        raise FedforError("--data-root is empty; name a folder, or leave it out")
    return Path(text)


DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        parser=_folder,
        metavar="<path>",
        help="Where the data are. Default: FEDFOR_DATA, else a cache folder.",
    ),
]


def _trackers(names: list[str] | None) -> list[str]:
    """Refused before anything has run, if they cannot work."""
    if not names:
        return []
    from .tracking import known_trackers

    return known_trackers(names)


Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        callback=_trackers,
        metavar="NAME",
        help="Send rounds there too: tensorboard, wandb, mlflow or package.module:Class. Repeat.",
    ),
]


def make_console() -> "Console":
    from rich.console import Console

    return Console(soft_wrap=False) if sys.stdout.isatty() else Console(width=120)


def stopped(command: str, what: str = "stopped; nothing is lost") -> None:
    sys.stderr.write(f"\n{what}, go on with: {command}\n")
    sys.exit(130)


def whole_numbers(option: str, text: str) -> list[int]:
    """With commas between. A large one may be written 10_000, 1e10 or 10**10."""
    numbers = [_whole_number(part) for part in text.split(",") if part]
    if not numbers or None in numbers:
        raise FedforError(
            f"{option} {text}: write whole numbers from 1 to 1e18, with commas between: 10,100"
        )
    return [number for number in numbers if number is not None]


def _whole_number(text: str) -> int | None:
    """None for what is none, or is too large to be meant."""
    found = re.fullmatch(r"(\d(?:_?\d){0,18})(?:([eE]|\*\*)(\d{1,2}))?", text.strip(), re.ASCII)
    if found is None:
        return None
    base, power = int(found[1]), int(found[3] or 0)
    number = base**power if found[2] == "**" else base * 10**power
    return number if 0 < number <= 10**18 else None


def seed_list(text: str) -> int | list[int]:
    """A count, or the seeds themselves."""
    try:
        numbers = [int(part) for part in text.rstrip(",").split(",")]
    except ValueError as error:
        raise FedforError(f"--seeds {text}: write a count, such as 3, or a list: 0,1,2") from error
    return numbers if "," in text else numbers[0]
