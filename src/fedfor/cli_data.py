"""fedfor data: official data sets, what is there of them, and getting them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_shared import DataRoot, make_console, stopped

if TYPE_CHECKING:
    from rich.console import Console

data_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, get and check official data sets.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Name = Annotated[str, typer.Argument(help="Of a data set (see: fedfor data list).")]


@data_app.command("list")
def show_list(data_root: DataRoot = None) -> None:
    """Show the data sets, and what is there of them."""
    from rich.table import Table

    from .data.official.catalogue import CATALOGUE
    from .data.official.check import glance, sizes

    root = _root(data_root)
    table = Table("name", "what", "train / test", "there", "terms", box=None)
    for name, entry in CATALOGUE.items():
        if entry.images:
            size = f"{sum(images for _, images in entry.images):,} in all"
        elif entry.per_domain:
            size = f"{entry.per_domain:,} a domain / all"
        else:
            size = sizes(entry.train, entry.test)
        table.add_row(name, entry.what, size, glance(name, root), entry.terms)
    console = make_console()
    console.print(table)
    _tell(console, f"They are looked for in {root}")


@data_app.command()
def get(name: Name, data_root: DataRoot = None) -> None:
    """Download a data set from its publisher.

    \b
    The same command again goes on where it was stopped. Examples:
      fedfor data get cifar10
      fedfor data get digits-five --data-root /data
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from .data.official.get import get as get_set

    root = _root(data_root)
    console = make_console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    quiet = not console.is_terminal
    with Progress(*columns, TransferSpeedColumn(), console=console, disable=quiet) as progress:
        tasks: dict[str, Any] = {}

        def on_bytes(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file)
            progress.update(tasks[file], completed=done, total=total)

        try:
            get_set(name, root, lambda words: _tell(progress.console, words), on_bytes)
        except KeyboardInterrupt:
            progress.stop()
            stopped(f"fedfor data get {name}")


@data_app.command()
def check(name: Name, data_root: DataRoot = None) -> None:
    """Read all of a data set, and tell what is in it."""
    from rich.table import Table

    from .data.official.check import check as check_set

    root = _root(data_root)
    console = make_console()
    with console.status(f"reading {name}"):
        domains, notes = check_set(name, root)
    table = Table("domain" if len(domains) > 1 else "name", "train", "test", "shape", box=None)
    for domain in domains:
        shape = " x ".join(map(str, domain.shape))
        table.add_row(domain.name, f"{domain.train:,}", f"{domain.test:,}", shape)
    console.print(table)
    for note in notes:
        _tell(console, f"note: {note}")
    _tell(console, f"{name} can be read")


@data_app.command("path")
def show_path(data_root: DataRoot = None) -> None:
    """Show the folder that data sets are looked for in."""
    typer.echo(_root(data_root))


def _root(told: Path | None) -> Path:
    from .data.official import data_root, use_root

    use_root(told)
    return data_root()


def _tell(console: "Console", words: str) -> None:
    console.print(words, soft_wrap=True, highlight=False, markup=False)
