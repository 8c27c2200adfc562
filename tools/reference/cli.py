"""docs/reference/cli.md, from the commands themselves."""

import inspect
from collections.abc import Iterator

import click
import typer

from fedfor.cli import app

from .markdown import code, page, shell, table

START = "`fedfor COMMAND -h` shows the same. What `--set` can change: [settings](config.md)."


def cli_page() -> str:
    root = typer.main.get_command(app)
    parts = [part for path, command in commands(root) for part in _command(path, command)]
    return page("Command line", START, *parts)


def commands(
    command: click.Command, path: tuple[str, ...] = ("fedfor",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all below it, in the order of --help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from commands(inner, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    name = " ".join(path)
    yield f"## {name}"
    context = click.Context(command, info_name=name)
    yield shell([" ".join([name, *command.collect_usage_pieces(context)])])
    yield from _words(command.help or "")
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in shown if isinstance(p, click.Argument)]
    options = [p for p in shown if isinstance(p, click.Option) and p.name != "help"]
    yield table(
        ("argument", ""),
        [(code(p.make_metavar(context)), _help(p)) for p in arguments],
    )
    rows = [(_flags(p, context), _default(p), _help(p)) for p in options]
    if any(default for _, default, _ in rows):
        yield table(("option", "default", ""), rows)
    else:
        yield table(("option", ""), [(flags, words) for flags, _, words in rows])


def _words(text: str) -> Iterator[str]:
    """Paragraphs of a docstring; those after \\b with their indented lines as code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if not paragraph.startswith("\b"):
            yield " ".join(paragraph.split())
            continue
        lines = paragraph.splitlines()[1:]
        if prose := " ".join(line for line in lines if not line.startswith(" ")):
            yield prose
        examples = [line.removeprefix("  ") for line in lines if line.startswith(" ")]
        if examples:
            yield shell(examples)


def _flags(option: click.Option, context: click.Context) -> str:
    names = sorted([*option.opts, *option.secondary_opts], key=len, reverse=True)
    value = "" if option.is_flag else " " + option.make_metavar(context).removesuffix(" RANGE")
    return ", ".join(code(name + (value if name == names[0] else "")) for name in names)


def _default(option: click.Option) -> str:
    value = option.default
    if value is None or callable(value) or value in ([], (), False, ""):
        return ""
    return code(" ".join(map(str, value)) if isinstance(value, list | tuple) else value)


def _help(parameter: click.Parameter) -> str:
    text = getattr(parameter, "help", None) or ""
    kind = parameter.type
    if isinstance(kind, click.IntRange | click.FloatRange) and kind.min is not None:
        text += f" At least {kind.min:g}."
    return text.strip()
