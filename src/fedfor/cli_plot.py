"""The command that draws figures for papers."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from .cli_report import Runs
from .errors import ConfigError, nearest


def plot(
    what: Annotated[
        str, typer.Argument(help="curves, target, bytes, state, parts, cohort or agreement.")
    ],
    runs: Runs,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="FILE.pdf, .svg or .png. Default: WHAT.pdf, here."),
    ] = None,
    width: Annotated[
        str, typer.Option(help="column (3.35 in), page (7 in), or inches.")
    ] = "column",
    height: Annotated[
        float | None, typer.Option(help="Inches. Default: as high as it needs to be.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", "-m", help="Only these, with commas between: fedavg,fedfor."),
    ] = None,
    point: Annotated[
        list[str] | None,
        typer.Option(help="Of a study, only this point, such as E=8. Repeat. Default: all."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Of curves: accuracy, loss, train_loss or disagreement."),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(
            "--x",
            help="Of curves: round; bytes (down and up), down, up; silo-bytes, silo-down.",
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Of curves: the best so far.")] = False,
    target: Annotated[
        float | None, typer.Option(help="Of target: a fraction. Default: that of the runs.")
    ] = None,
    parts: Annotated[
        list[str] | None, typer.Option(help="Of parts: only these domains or classes.")
    ] = None,
    log_x: Annotated[bool, typer.Option("--log-x", help="A logarithmic axis.")] = False,
    log_y: Annotated[bool, typer.Option("--log-y", help="A logarithmic axis.")] = False,
    title: Annotated[str, typer.Option(help="Above it. Papers have captions instead.")] = "",
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Of a PNG.")] = 300,
) -> None:
    """Draw a figure for a paper from runs that are done, or still running.

    \b
      curves     accuracy or loss by round, or by bytes sent
      target     rounds to a target accuracy, of each run
      bytes      what went down and up, by method
      state      what clients keep, by round
      parts      accuracy of each domain or class, by round
      cohort     the classes that the clients of the first round have
      agreement  how client updates agree with their mean, by round

    \b
    Examples:
      fedfor plot curves runs/compare-demo
      fedfor plot curves runs/compare-demo --x bytes -o bytes.svg
      fedfor plot curves results/prior-shift.json --best --width page -o prior-shift.png
      fedfor plot target runs/compare-demo --target 0.9 --methods fedavg,fedfor
    """
    from .report.loading import load_runs
    from .report.methods import methods_of
    from .report.plots.asked import Asked, of_names, of_points, places_of
    from .report.plots.kinds import KINDS
    from .report.plots.save import check_path, save
    from .report.plots.style import need_matplotlib

    if what not in KINDS:
        raise ConfigError(f"there is no figure '{what}'; {nearest(what, KINDS)}")
    kind = KINDS[what]
    given = {"metric": metric, "x": x, "best": best, "target": target, "parts": parts}
    given |= {"log-x": log_x, "log-y": log_y}
    for option, value in given.items():
        if value not in (None, False) and option not in kind.takes:
            takers = ", ".join(name for name, other in KINDS.items() if option in other.takes)
            raise ConfigError(f"--{option} is for {takers}, not for {what}; leave it out")
    path = out or Path(f"{what}.pdf")
    check_path(path)
    need_matplotlib()
    size = _width(width), _height(height)
    loaded = load_runs(runs)
    for run in loaded:
        for problem in run.problems:
            warnings.warn(f"{run.path}: {problem}", stacklevel=1)
    found = methods_of(loaded)
    asked = Asked(
        of_names(of_points(found, point or ()), methods or ()),
        places_of(found),
        *size,
        title=title,
        metric=metric or "accuracy",
        x=x or "round",
        best=best,
        target=target,
        parts=tuple(parts or ()),
        log_x=log_x,
        log_y=log_y,
    )
    figure = kind.draw(asked)
    save(figure, path, dpi)
    inches = " x ".join(f"{side:.2f}" for side in figure.get_size_inches())
    typer.echo(f"Wrote {path}, {inches} in: {kind.caption}.")


def _width(text: str) -> float:
    from .report.plots.style import WIDTHS

    try:
        inches = WIDTHS[text] if text in WIDTHS else float(text)
    except ValueError:
        inches = 0.0
    if not 2 <= inches <= 50:
        raise ConfigError(
            f"--width {text}: it must be column (3.35 in), page (7 in), or inches from 2 to 50"
        )
    return inches


def _height(inches: float | None) -> float | None:
    if inches is not None and not 0.5 <= inches <= 50:
        raise ConfigError(f"--height {inches:g}: it must be inches from 0.5 to 50")
    return inches
