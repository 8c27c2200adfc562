"""fedfor report: runs as a page."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .cli_shared import make_console

Runs = Annotated[
    list[Path],
    typer.Argument(
        help="Folders of runs, comparisons, studies or Flower federations, or files of results."
    ),
]


def report(
    runs: Runs,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write.", show_default=True)
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Of the page. Default: the names.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write one page about runs, which opens offline and can be sent by mail.

    Learning curves by round and by bytes, the table, rounds to a target, domains or classes, bytes
    and state, what clients have, how they agree, settings. It says what is missing in a run.

    \b
    Examples:
      fedfor report runs/compare-prior-shift
      fedfor report runs/a runs/b /srv/federation/run -o both.html
      fedfor report results/prior-shift.json -o prior-shift.html
    """
    from .report.page import write_page

    count = write_page(runs, out, title)
    size = out.stat().st_size / 2**20
    words = f"{out}: {count} {'run' if count == 1 else 'runs'}, {size:.1f} MiB; open it with any "
    address = out.absolute().as_uri()
    console = make_console()
    console.print(f"{words}browser: {address}", soft_wrap=True, highlight=False, markup=False)
    if open_:
        webbrowser.open(address)
