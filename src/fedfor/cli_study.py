"""The commands that repeat the paper's experiments and print its tables."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cli_shared import DataRoot, Track, make_console, seed_list, stopped, whole_numbers
from .errors import ConfigError, FedforError

if TYPE_CHECKING:
    from .paper.results import Results
    from .paper.study import Study

HOW = ("lanes", "threads")
"""Settings that change nothing but how fast it goes and what it takes."""


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="prior-shift, digits, office-caltech, domainnet, concept-shift, alpha-sweep, "
            "communication, statefulness, or a TOML file of your own."
        ),
    ],
    epochs: Annotated[
        str | None, typer.Option(help="Local epochs, with commas. Default: the study's.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many, or which: 3, or 0,1,2 (2, for seed 2 alone).")
    ] = None,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithms",
            "-a",
            help="Rows by name, or algorithms with settings: fedavg,fedfor,alpha=2. Default: all.",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for all runs. Repeat."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ..., or auto.")] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32 or bf16. Default: bf16 on a GPU, else fp32.")
    ] = None,
    data_root: DataRoot = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Processes. Default: one a core.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write to.")] = None,
    track: Track = None,
) -> None:
    """Repeat an experiment of the paper.

    The same command again goes on where it was stopped; more seeds, epochs or algorithms are added
    to what is there.

    \b
    Examples:
      fedfor reproduce prior-shift --device cuda
      fedfor reproduce prior-shift --epochs 1,2 --seeds 5 --algorithms fedavg,fedfor-paper
      fedfor reproduce digits -a fedbn -a fedfor+fedbn,alpha=2 --set rounds=20
    """
    from .data.official import use_root
    from .experiments.build import build_device
    from .paper.reproduce import reproduce as run_all
    from .paper.results import RESULTS, gather
    from .paper.study import load_study
    from .report.paper_table import paper_table
    from .report.progress import RunsProgress, engine_of
    from .report.provenance import commit
    from .tracking import follow_planned

    use_root(data_root)
    how = [a for a in assignments or () if a.partition("=")[0].strip() in HOW]
    what = [a for a in assignments or () if a not in how]
    written = load_study(name)
    study = _chosen(written, epochs, algorithms, seeds, what)
    where = build_device(device)
    chosen = precision or ("bf16" if where.type == "cuda" else "fp32")
    path = out or Path("runs") / study.name
    cells = study.cells(path, [f"device={where}", f"precision={chosen}", *how])
    for sentence in written.lacking_backbone(study.rows):
        warnings.warn(sentence, stacklevel=1)
    console, command = make_console(), shlex.join(["fedfor", *sys.argv[1:]])
    points = {cell.folder.path: cell.point for cell in cells}
    progress = RunsProgress(console, cells, group=lambda run: points[run.folder.path])
    tracking = follow_planned(track or (), cells, command, lambda run: points[run.folder.path])
    about = {"command": command, "commit": commit()}
    count = _workers(workers, where.type)
    try:
        with tracking, progress.shown():
            tick = tracking.beside(progress.tick)
            ended = run_all(study, cells, path, count, about, progress.end, tick)
    except KeyboardInterrupt:
        kept = len(_saved(gather(study, cells), path / RESULTS).cells)
        stopped(command, f"stopped; {kept} runs are done and kept, what was cut off starts again")
    if words := engine_of(cells):
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    results, saved = gather(study, cells), path / RESULTS
    if results.cells:
        typer.echo(paper_table(results, against="paper" if study.table else None))
        kept = len(_saved(results, saved).cells)
        runs = "1 run" if kept == 1 else f"{kept} runs"
        typer.echo(f"With it, {saved} has {runs}; again: fedfor table {saved}")
    if broken := [e for e in ended if e.problem is not None and not e.diverged]:
        raise FedforError(
            f"{len(broken)} of {len(cells)} runs failed, see above; mend it and repeat the command"
        )


def _saved(results: "Results", path: Path) -> "Results":
    """With what the file had already."""
    from .paper.results import load_results

    if path.is_file():
        results = load_results([path]).merged(results)
    if results.cells:
        results.save(path)
    return results


def show_table(
    results: Annotated[
        list[Path],
        typer.Argument(help="Result files or folders of 'fedfor reproduce', or folders of runs."),
    ],
    against: Annotated[
        str | None, typer.Option(help="'paper': its numbers beside ours, and the difference.")
    ] = None,
    gain_over: Annotated[
        str | None, typer.Option(help="Show by how much each row is better than this one.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="With commas, such as best,rounds_to_target,state_bytes.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="markdown, latex or csv.")] = "markdown",
    figure: Annotated[
        Path | None, typer.Option(help="Draw a picture into this file instead.")
    ] = None,
) -> None:
    """Print the table of a reproduced experiment, or of runs, simulated or on Flower.

    Means over seeds with the deviation; differences are in units of the joint deviation of both.

    \b
    Examples:
      fedfor table results/prior-shift.json --against paper
      fedfor table results/prior-shift.json --against paper --gain-over FedAvg
      fedfor table runs/digits --format latex
      fedfor table runs/simulated /srv/federation/run
    """
    from .paper.results import load_results
    from .report.paper_table import FORMS, paper_table
    from .report.runs import are_runs, runs_table

    if form not in FORMS:
        raise ConfigError(f"--format {form}: it must be one of {', '.join(FORMS)}")
    if against not in (None, "paper"):
        raise ConfigError(f"--against {against}: only the paper's numbers are known, say: paper")
    if are_runs(results):
        if any((against, gain_over, metrics, figure)) or form != "markdown":
            raise ConfigError(
                "the options of 'fedfor table' are for results of 'fedfor reproduce'; name folders "
                "of runs alone"
            )
        typer.echo(runs_table(results), nl=False)
        return
    loaded = load_results(results)
    if figure is not None:
        if gain_over is not None or metrics is not None or form != "markdown":
            raise ConfigError(
                "--figure draws what the study says; --metrics, --gain-over and --format are for "
                "tables"
            )
        from .report.paper_figure import draw_figure

        draw_figure(loaded, figure)
        return
    chosen = None if metrics is None else [m for m in metrics.split(",") if m]
    typer.echo(paper_table(loaded, against, gain_over, chosen, form))


def _chosen(
    study: "Study",
    epochs: str | None,
    algorithms: list[str] | None,
    seeds: str | None,
    assignments: list[str],
) -> "Study":
    if epochs is not None:
        study = study.with_epochs(whole_numbers("--epochs", epochs))
    if algorithms:
        study = study.with_algorithms(algorithms)
    if seeds is not None:
        study = study.with_seeds(seed_list(seeds))
    return study.with_settings(assignments)


def _workers(asked: int | None, device: str) -> int:
    import os

    return asked or (1 if device != "cpu" else os.cpu_count() or 1)
