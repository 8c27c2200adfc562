"""The command line. Everything heavy is imported inside the commands, so that --help is quick."""

import logging
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from . import __version__
from .cli_data import data_app
from .cli_plot import plot
from .cli_report import report
from .cli_scale import scale
from .cli_shared import DataRoot, Track, make_console, seed_list, stopped, whole_numbers
from .cli_study import reproduce, show_table
from .cli_watch import watch
from .errors import FedforError

if TYPE_CHECKING:
    from .experiments.comparison import Comparison
    from .experiments.config import RunConfig
    from .experiments.folder import RunFolder

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Config = Annotated[
    str, typer.Argument(help="A TOML file, or the name of a bundled config (see: fedfor configs).")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: training.lr=0.1. Repeat."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write to.")]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="serial: one client after another; vector: all at once; auto; ray: on a Ray cluster "
        "of this machine, or on another by its address, ray://HOST:PORT or HOST:PORT.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        help="Processes at a time, of a comparison or of the engine ray. Default: one for each "
        "core, or all that the Ray cluster has room for.",
    ),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Federated learning that converges on non-IID clients and keeps no state on them.

    \b
    Examples:
      fedfor run prior-shift
      fedfor run prior-shift --set algorithm.alpha=3 --set rounds=20
      fedfor compare covariate-shift -a fedbn -a fedfor+fedbn --seeds 3
      fedfor resume runs/prior-shift/fedfor-seed0
      fedfor report runs/compare-covariate-shift
      fedfor algorithms
      fedfor data get cifar10
      fedfor reproduce prior-shift --device cuda
      fedfor new-app my-app
    """
    if version:
        typer.echo(f"fedfor {__version__}")
        raise typer.Exit


@app.command()
def run(
    config: Config,
    assignments: Assignments = None,
    engine: EngineOption = None,
    data_root: DataRoot = None,
    out: Out = None,
    workers: Workers = None,
    track: Track = None,
) -> None:
    """Run one experiment into a folder.

    \b
    Examples:
      fedfor run prior-shift
      fedfor run my.toml --set algorithm.name=fedprox --set algorithm.mu=0.1 --out runs/prox
      fedfor run my.toml --set algorithm.server.name=fedadam --set seed=7
      fedfor run my.toml --engine vector --set device=cuda --set precision=bf16
      fedfor run my.toml --engine ray --workers 4
      fedfor run my.toml --track tensorboard
    """
    from .data.official import use_root
    from .experiments.folder import RunFolder
    from .experiments.load import load_config, read_toml
    from .experiments.run import start_run

    use_root(data_root)
    chosen = _with_engine(assignments, engine)
    settings = load_config(read_toml(config), chosen, source=config)
    folder = RunFolder(out) if out else _free_folder(Path(config).stem, settings)
    _require_ray("--workers", workers, settings.engine)
    start_run(folder, settings)
    _run_folder(folder.path, track or (), None, workers)


@app.command()
def compare(
    config: Config,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm", "-a", help="A name and settings: fedprox,mu=0.1. Repeat for more."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many, or which: 3, or 0,1,2 (10, for seed 10 alone).")
    ] = None,
    assignments: Assignments = None,
    engine: EngineOption = None,
    data_root: DataRoot = None,
    out: Out = None,
    workers: Workers = None,
    track: Track = None,
) -> None:
    """Put several algorithms and seeds into one table.

    The same command again goes on where it was stopped.

    \b
    Examples:
      fedfor compare prior-shift -a fedavg -a fedprox,mu=0.1 -a fedfor --seeds 5
      fedfor compare prior-shift -a fedfor,alpha=2 -a fedfor,alpha=8 --set training.epochs=8
      fedfor compare my.toml -a fedavg,training.lr=0.1 -a fedfor+fedadam,server.lr=0.01
    """
    from .data.official import use_root
    from .experiments.comparison import Comparison, with_assignments
    from .experiments.load import read_toml

    use_root(data_root)
    tables = with_assignments(read_toml(config), _with_engine(assignments, engine))
    choice: dict[str, Any] = dict(tables.get("compare", {}))
    if algorithms:
        choice["algorithms"] = algorithms
    if seeds is not None:
        choice["seeds"] = seed_list(seeds)
    tables["compare"] = choice
    path = out or Path("runs") / f"compare-{Path(config).stem}"
    _compare(Comparison(tables, path, source=config), workers, track or ())


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run or of a comparison.")],
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Another Ray cluster: its address, or ray for one here."),
    ] = None,
    data_root: DataRoot = None,
    workers: Workers = None,
    track: Track = None,
) -> None:
    """Go on with a run or comparison that was cut off.

    \b
    Examples:
      fedfor resume runs/prior-shift/fedfor-seed0
      fedfor resume runs/compare-demo --workers 1
      fedfor resume runs/large --engine ray://head:10001 --workers 8
    """
    from .data.official import use_root
    from .experiments.comparison import Comparison
    from .experiments.folder import RunFolder

    use_root(data_root)
    if (folder / "compare.toml").is_file():
        comparison = Comparison.saved(folder)
        _require_ray("--engine", engine, comparison.first.engine)
        _compare(comparison, workers, track or (), engine)
    else:
        settings = RunFolder(folder).config()
        _require_ray("--engine", engine, settings.engine)
        _require_ray("--workers", workers, settings.engine)
        _run_folder(folder, track or (), engine, workers)


@app.command("algorithms")
def show_algorithms(
    name: Annotated[str | None, typer.Argument(help="One of them, or a combination.")] = None,
) -> None:
    """Show what algorithms send, keep and cost."""
    from .report.algorithms import algorithms_table, describe

    if name is not None:
        typer.echo(describe(name))
    else:
        make_console().print(algorithms_table())


@app.command()
def bench(
    models: Annotated[str, typer.Option(help="Which, with commas between.")] = "linear,mlp,cnn",
    cohorts: Annotated[str, typer.Option(help="Clients a round, with commas.")] = "10,100",
    engines: Annotated[str, typer.Option(help="serial, vector, auto.")] = "serial,vector",
    algorithm: Annotated[str, typer.Option(help="What the clients run.")] = "fedfor",
    samples: Annotated[int, typer.Option(min=1, help="Samples of each client.")] = 64,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = 16,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ..., or auto.")] = "auto",
    precision: Annotated[str, typer.Option(help="Of vector: fp32, tf32 or bf16.")] = "fp32",
    compile_: Annotated[
        str, typer.Option("--compile", help="Of vector on a GPU: auto, always or never.")
    ] = "never",
    lanes: Annotated[
        int | None, typer.Option(min=1, help="The most clients at once. Default: as fit.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="For each case.")] = 2.0,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the figures there, - for the terminal.")
    ] = None,
) -> None:
    """Measure the engines: images and clients a second on made-up data.

    \b
    Examples:
      fedfor bench
      fedfor bench --models resnet20 --cohorts 10,80 --samples 640 --batch 128 --device cuda \\
          --precision bf16 --compile always --json bench.json
    """
    import json

    from .engines.stacking import Compile, Precision, Stacking
    from .experiments.bench import Bench
    from .experiments.folder import write_json
    from .report.bench import bench_json, bench_table

    how = Stacking(cast("Precision", precision), lanes, cast("Compile", compile_))
    timed = Bench(algorithm, samples, batch, seconds, device, how, threads)
    names = [[part for part in text.split(",") if part] for text in (engines, models)]
    sizes = whole_numbers("--cohorts", cohorts)
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise FedforError(f"--json {json_path}: there is no folder {json_path.absolute().parent}")
    console = make_console()
    results = []
    with console.status("measuring") as status:
        for result in timed.measure(names[0], names[1], sizes):
            results.append(result)
            status.update(f"measured {result.engine}, {result.model}, {result.cohort}")
    figures = bench_json(timed, results, " ".join(["fedfor", *sys.argv[1:]]))
    if str(json_path) == "-":
        typer.echo(json.dumps(figures, indent=2))
        return
    console.print(bench_table(results, f"{algorithm} on {figures['device']}, {precision}"))
    if json_path is not None:
        write_json(json_path, figures)


@app.command()
def configs(
    name: Annotated[str | None, typer.Argument(help="Print this one, to start your own.")] = None,
) -> None:
    """Show the bundled configs, or print one.

    \b
    Example, to start one of your own:
      fedfor configs prior-shift > my.toml
    """
    from .errors import ConfigError, nearest
    from .experiments.load import bundled_configs

    bundled = bundled_configs()
    if name is None:
        for known, text in bundled.items():
            comment = " ".join(
                line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")
            )
            typer.echo(f"{known}\n    {comment}")
    elif name in bundled:
        typer.echo(bundled[name], nl=False)
    else:
        raise ConfigError(f"there is no bundled config '{name}'; {nearest(name, bundled)}")


@app.command("new-app")
def new_app(
    folder: Annotated[Path, typer.Argument(help="Where to write it; its name is the app's.")],
) -> None:
    """Write a Flower app for your own model and data. It runs as it is, on bundled digits.

    \b
    Example:
      fedfor new-app my-app
      cd my-app
      flwr run . --stream --federation-config "num-supernodes=5"
    """
    from .flower.new_app import write_app

    for path in write_app(folder):
        typer.echo(path)
    typer.echo("Your model and data go into task.py; README.md says how to run it.")


app.command()(reproduce)
app.command()(report)
app.command()(plot)
app.command("table")(show_table)
app.command()(watch)
app.command()(scale)
app.add_typer(data_app, name="data")


def _with_engine(assignments: list[str] | None, engine: str | None) -> list[str]:
    return [*(assignments or ()), *([f"engine={engine}"] if engine else ())]


def _free_folder(stem: str, settings: "RunConfig") -> "RunFolder":
    """A folder of its own for every run that is not told where to go."""
    from .experiments.folder import RunFolder, occupied

    name = f"{settings.algorithm['name'].replace(':', '_')}-seed{settings.seed}"
    path, count = Path("runs") / stem / name, 1
    while occupied(path):
        count += 1
        path = path.with_name(f"{name}-{count}")
    return RunFolder(path)


def _again(path: Path, trackers: Sequence[str]) -> str:
    return " ".join(["fedfor resume", str(path), *(f"--track {name}" for name in trackers)])


def _require_ray(option: str, value: object, engine: str) -> None:
    """Refuse what says how work is shared out where none is."""
    from .engines.names import is_ray, require_engine

    if value is not None and not is_ray(engine):
        raise FedforError(f"{option} {value}: this run's engine is {engine}, not ray; leave it out")
    if option == "--engine" and isinstance(value, str):
        require_engine(value)
        if not is_ray(value):
            raise FedforError(f"--engine {value}: a run goes on with the engine it has, ray")


def _run_folder(
    path: Path, trackers: Sequence[str], engine: str | None, workers: int | None
) -> None:
    from .experiments.build import Where
    from .experiments.folder import RunFolder
    from .experiments.run import run_in_folder
    from .report.progress import outcome, show_run
    from .tracking import Tracking

    folder = RunFolder(path)
    config = folder.config()
    name = f"{config.algorithm['name']}, seed {config.seed}"
    console = make_console()
    done = len(folder.records())
    about, again = {"folder": str(path.absolute()), "name": name}, _again(path, trackers)
    try:
        with (
            Tracking(trackers, [about], again) as tracking,
            show_run(console, name, done, config.rounds) as on_round,
        ):
            run_in_folder(folder, tracking.beside(on_round), Where(engine, workers))
    except KeyboardInterrupt:
        stopped(again)
    summary = folder.summary() or {}
    text = f"{outcome(summary, config)}. Everything is in {path}"
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def _compare(
    comparison: "Comparison",
    workers: int | None,
    trackers: Sequence[str],
    engine: str | None = None,
) -> None:
    from .experiments.compare import compare as run_all
    from .report.comparison import write_report
    from .report.progress import RunsProgress, engine_of
    from .tracking import follow_planned

    console = make_console()
    progress = RunsProgress(console, comparison.runs)
    comparison.require_same()
    if progress.ended == len(comparison.runs):
        text = (
            f"All {progress.ended} runs are there already; delete {comparison.path} to redo them."
        )
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    again = _again(comparison.path, trackers)
    try:
        with follow_planned(trackers, comparison.runs, again) as tracking, progress.shown():
            tick = tracking.beside(progress.tick)
            ended = run_all(comparison, workers, progress.end, tick, engine)
    except KeyboardInterrupt:
        stopped(again)
    if words := engine_of(comparison.runs):
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    write_report(comparison, console)
    if broken := [e for e in ended if e.problem is not None and not e.diverged]:
        what = f"{len(broken)} of {len(comparison.runs)} runs failed, see above"
        raise FedforError(f"{what}; mend it and go on with 'fedfor resume {comparison.path}'")


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"warning: {message}\n")


def main() -> None:
    """Mistakes of the user end in one sentence and exit code 2; divergence in 3."""
    warnings.showwarning = _show_warning
    logging.basicConfig(format="%(message)s")
    logging.getLogger("fedfor").setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop as tidily as at Ctrl-C
    try:
        app()
    except FedforError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # whoever read our output has left
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        sys.stderr.write(f"error: cannot read or write: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
