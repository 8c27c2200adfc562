"""The command that follows runs while they train."""

import io
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cli_shared import make_console

if TYPE_CHECKING:
    from .watch.follow import Follower

LOOK_EVERY = 2.0
"""Seconds between two looks for the terminal, beside those for the page."""


def watch(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run, or of several. It may still be to come.")
    ],
    terminal: Annotated[
        bool, typer.Option("--terminal", "-t", help="Show it here; ends when the runs have ended.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Of the page. Default: 8008, or a free one; 0: free."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where the page is served; the default is this machine alone.")
    ] = "127.0.0.1",
    open_: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in a browser. Default: where there is a screen."
        ),
    ] = None,
) -> None:
    """Follow a run or a sweep while it trains: a live page, or a view for the terminal.

    It only reads the folder, and can be started and stopped at any time. Ctrl-C ends it.

    \b
    Examples:
      fedfor watch runs/compare-demo
      fedfor watch runs/prior-shift/fedfor-seed0 --terminal
      ssh -L 8008:127.0.0.1:8008 gpu-box fedfor watch runs/compare-demo --port 8008
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that it cannot show must not end it
        sys.stdout.reconfigure(errors="replace")
    try:
        from .watch.follow import Follower, require_watchable

        require_watchable(folder)
        follower = Follower(folder)
        if terminal:
            from .watch.terminal import show

            show(follower, make_console())
        else:
            _serve(follower, host, port, open_)
    except KeyboardInterrupt:
        sys.exit(130)


def _serve(follower: "Follower", host: str, port: int | None, open_: bool | None) -> None:
    from .watch.live import LivePage
    from .watch.server import is_loopback, serve
    from .watch.words import clean

    server = serve(LivePage(follower), host, port)
    if not is_loopback(host):
        typer.echo(
            f"warning: everybody who can reach {clean(host)} can read how the runs in "
            f"{clean(str(follower.path))} stand; there is no password",
            err=True,
        )
    typer.echo(f"{clean(str(follower.path))} is shown at {server.url} until Ctrl-C")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    if _has_screen() if open_ is None else open_:
        import webbrowser

        webbrowser.open(server.url)
    try:
        _tell(follower)
    finally:
        server.shutdown()
        server.server_close()


def _tell(follower: "Follower") -> None:
    """Say when things change: that all have ended, that the folder is gone, or back."""
    from .watch.words import clean

    told, pause = "", threading.Event()
    while True:
        status = follower.look()
        if status.state != told:
            told = status.state
            typer.echo(clean(f"{told}: {status.words}"))
            sys.stdout.flush()
        pause.wait(LOOK_EVERY)


def _has_screen() -> bool:
    """Whether a browser would open before the eyes of whoever started this."""
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
