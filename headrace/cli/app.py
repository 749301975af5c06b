"""The command-line application with all its commands.

The module of a command is loaded only when the command is called, so that help is quick. Options of a pipeline, written
as `--name=value`, are accepted beside a command's own options.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from itertools import zip_longest
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

import headrace

# Newer releases of typer contain click; older ones use the package.
_Context = Any
_Command = Any

SUMMARIES = {
    "run": "Run a pipeline to the end of its input.",
    "inspect": "Show what a checkpoint holds: epochs, watermarks and who holds them, timers, state, records.",
    "explain": "Say whether each step is vectorized, and, of a run, what keeps its watermarks back.",
    "draw": "Draw a pipeline. Nothing is run.",
    "plot": "Draw a run: inputs, watermarks, panes and timers over event time and processing time.",
    "ui": "Serve a page that shows pipelines as they run, from their checkpoints.",
    "options": "List the options of a pipeline.",
    "new": "Make a small project: a pipeline, some data and a test.",
}
"""Maps each command to the first line of its help; the module with the name of the command has the full help."""


def _command_of(name: str) -> _Command:
    function = getattr(import_module(f"headrace.cli.{name}"), name)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=PipelineCommand, help=_paragraphs(function.__doc__ or SUMMARIES[name]))(function)
    return typer.main.get_command(alone)


def _paragraphs(text: str) -> str:
    r"""Return a docstring with each paragraph on one line, so that the terminal can wrap the lines at its width.

    >>> _paragraphs("Run.\n\n    To the\n    end.")
    'Run.\n\nTo the end.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


class _Commands(TyperGroup):
    """A group of commands that loads only the command that is called."""

    def __init__(self, **settings: object) -> None:
        # typer does not export the types of these settings.
        super().__init__(**cast("dict[str, Any]", settings))
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in SUMMARIES.items()}

    def resolve_command(self, ctx: _Context, args: list[str]) -> tuple[str | None, _Command, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _command_of(name), rest


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Run event-time pipelines on Apache Spark, and look into what they keep.

    Example: headrace run scores.py:pipeline --checkpoint=state/scores
    """


class PipelineCommand(TyperCommand):
    """A command that takes options of the pipeline in addition to its own."""

    # Newer releases of typer contain click; older ones use the package.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn options of the pipeline into `--option` arguments."""
        own = {name: not getattr(each, "is_flag", False) for each in self.params for name in each.opts}
        args = list(_with_usual_values(args, own))
        off = {name for each in self.params for name in getattr(each, "secondary_opts", ())}
        if "--option" in own:
            args = list(with_options(args, [name for name, takes in own.items() if takes], {*own, *off, "--help"}))
        return super().parse_args(ctx, args)


_USUAL = {"--ui": "8765"}
"""Options of commands that may stand without a value, and the value that they then have."""
_ADDRESS = re.compile(r"(\S+:)?\d+")


def _with_usual_values(args: Sequence[str], own: Collection[str]) -> Iterator[str]:
    """Yield the arguments of a command, with the usual value behind an option that stands without one.

    >>> list(_with_usual_values(["--ui", "run.py"], ["--ui"])), list(_with_usual_values(["--ui", "80"], ["--ui"]))
    (['--ui=8765', 'run.py'], ['--ui', '80'])
    """
    for arg, following in zip_longest(args, args[1:], fillvalue=""):
        is_alone = arg in _USUAL and arg in own and not _ADDRESS.fullmatch(following)
        yield f"{arg}={_USUAL[arg]}" if is_alone else arg


def with_options(args: Sequence[str], taking: Collection[str], own: Collection[str]) -> Iterator[str]:
    """Yield the arguments of a command, with flags of the pipeline turned into `--option` arguments.

    Args:
        args: The arguments as given on the command line.
        taking: The options of the command itself that take a value.
        own: All options of the command itself.

    >>> list(with_options(["run.py", "--latency_aim=5", "--intervals", "4", "-o", "record"], ["-o"], ["-o"]))
    ['run.py', '--option=latency_aim=5', '--option=intervals=4', '-o', 'record']
    """
    from headrace.options.pipeline_options import any_option

    pipeline = any_option()
    rest, has_target = list(args), False
    while rest:
        arg = rest.pop(0)
        name, equals, value = arg.partition("=")
        if name not in own and name.replace("_", "-") in own:
            name = name.replace("_", "-")
            arg = name + equals + value
        if name in own or not arg.startswith("--") or arg == "--":
            has_target = has_target or not arg.startswith("-")
            yield arg
            if name in taking and not value and rest:
                yield rest.pop(0)
            continue
        # Declared options say whether a value follows. After another option, a text is a value if the only argument of
        # the command, its target, was given before.
        follows = rest and not value and not rest[0].startswith("-")
        takes = pipeline.takes_value(name)
        if follows and (takes or (takes is None and has_target)):
            arg = f"{arg}={rest.pop(0)}"
        yield f"--option={arg[2:]}"
