"""The command that measures how a round scales."""

import datetime
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cli_shared import make_console, stopped, whole_numbers
from .errors import ConfigError, FedforError, nearest

if TYPE_CHECKING:
    from .experiments.scale_machine import Machine
    from .experiments.scale_plan import Plan

PAGES = ("table", "deployment")


def scale(
    populations: Annotated[
        str, typer.Option(help="Clients that there are, with commas: 1000, 10_000, 1e7, 10**10.")
    ] = "1e3,1e5,1e7,1e10",
    cohorts: Annotated[
        str, typer.Option(help="Clients called a round, with commas.")
    ] = "10,100,1000,3000,10000",
    workers: Annotated[
        str | None,
        typer.Option(help="Of the engine ray, with commas. Default: 1, 2, 4, ... to all CPUs."),
    ] = None,
    models: Annotated[
        str, typer.Option(help="Which, with commas, in the order of their size.")
    ] = "linear,cnn,resnet20,digits-net",
    rounds: Annotated[
        int, typer.Option(min=1, help="That are counted, after those in which workers get ready.")
    ] = 3,
    algorithm: Annotated[str, typer.Option(help="What the clients run.")] = "fedfor",
    engine: Annotated[
        str, typer.Option(help="ray, an address (ray://HOST:PORT, HOST:PORT), serial or vector.")
    ] = "ray",
    samples: Annotated[int, typer.Option(min=1, help="Samples of each client.")] = 20,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = 10,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that one case may take.")] = 900.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder to write to: runs/scale.")
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", help="Measure nothing: print what a scale.json has, as Markdown."),
    ] = None,
    page: Annotated[
        str | None, typer.Option(help="With --from: the table or the page on a deployment.")
    ] = None,
) -> None:
    """Measure time and memory of a round, here or on a cluster, against what makes it larger.

    One thing at a time is varied: the population, the cohort, the workers, the model. The others
    stay at the base case: the largest population, all workers, and of cohorts and models the one
    in the middle of the list. Each case is a run of its own on the bundled digits, in a process
    of its own. The folder gets scale.json, table.md, scale.svg and .png, and deployment.md: what a
    deployment at 10^7 and 10^10 clients needs, worked out from these figures.

    The same command again goes on where it was stopped, and tries again what failed.

    \b
    Examples:
      fedfor scale
      fedfor scale --engine serial --cohorts 10,100 --models linear,mlp,cnn --out runs/small
      fedfor scale --engine ray://head:10001 --workers 1,8,64 --cohorts 100,1000,10_000
      fedfor scale --from results/scale.json
      fedfor scale --from results/scale.json --page deployment
      fedfor scale --from results/scale.json --out again
    """
    if page is not None and page not in PAGES:
        raise ConfigError(f"--page {page}: there is none; {nearest(page, PAGES)}")
    if page is not None and (from_ is None or out is not None):
        raise ConfigError("--page says what --from prints; a folder gets both pages")
    if from_ is not None:
        _show(from_, page or PAGES[0], out)
        return
    from .experiments.scale_machine import machine
    from .experiments.scale_plan import Plan

    names = tuple(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"--models {models}: name some, with commas between: linear,cnn")
    populations_, cohorts_ = _rising("--populations", populations), _rising("--cohorts", cohorts)
    there = machine(engine)
    plan = Plan(
        populations=populations_,
        cohorts=cohorts_,
        workers=_workers(engine, workers, there.room),
        models=names,
        algorithm=algorithm,
        engine=engine,
        rounds=rounds,
        samples=samples,
        batch=batch,
    )
    _measure(plan, there, out or Path("runs") / "scale", limit)


def _measure(plan: "Plan", there: "Machine", path: Path, limit: float) -> None:
    from .experiments.scale import described, measure
    from .experiments.scale_machine import versions
    from .experiments.scale_plan import check_plan
    from .experiments.scale_results import Made, Measured
    from .report.provenance import commit
    from .report.quantities import lasting
    from .report.scale import scale_table
    from .report.scale_files import write_scale_files

    parameters = check_plan(plan, there.room)
    command = shlex.join(["fedfor", *sys.argv[1:]])
    made = Made(
        command=command,
        commit=commit(),
        date=datetime.date.today().isoformat(),
        machine=there,
        versions=versions(),
    )
    console = make_console()

    def tell(one: Measured) -> None:
        outcome = one.problem or f"{lasting(one.a_round)} a round"
        words = f"{described(plan, one.case)}: {outcome}"
        console.print(words, soft_wrap=True, highlight=False, markup=False)

    try:
        with console.status("measuring") as status:
            shown = lambda what: status.update(f"measuring {what}")  # noqa: E731
            results = measure(plan, parameters, path, made, limit, shown, tell)
    except KeyboardInterrupt:
        stopped(command, "stopped; what was measured is kept")
    left_out = write_scale_files(results, path)
    console.print(scale_table(results))
    words = f"Everything is in {path}{left_out}."
    console.print(words, soft_wrap=True, highlight=False, markup=False)
    if results.failed:
        raise FedforError(
            f"{results.failed} of {len(plan.cases) + len(plan.models)} measurements failed, see "
            "above; mend it and repeat the command"
        )


def _show(source: Path, page: str, out: Path | None) -> None:
    from .experiments.scale_results import load_scale
    from .report.deployment import deployment_markdown
    from .report.scale import scale_markdown
    from .report.scale_files import write_scale_files

    results = load_scale(source)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        typer.echo(f"Everything is in {out}{write_scale_files(results, out)}.")
    elif page == "table":
        typer.echo(scale_markdown(results), nl=False)
    else:
        typer.echo(deployment_markdown(results, level=3), nl=False)


def _rising(option: str, text: str) -> tuple[int, ...]:
    return tuple(sorted(set(whole_numbers(option, text))))


def _workers(engine: str, text: str | None, room: int) -> tuple[int, ...]:
    from .engines.names import is_ray

    if text is not None:
        return _rising("--workers", text)
    if not is_ray(engine):
        return ()
    if not room:
        raise ConfigError(f"the cluster at {engine} has no CPU for a worker")
    return tuple(sorted({*(2**power for power in range(room.bit_length())), room}))
