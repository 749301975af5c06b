"""The command-line application with all its commands.

The module of a command is loaded only when the command is called, so that help is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

import headrace
from headrace.cli.flags import PipelineCommand

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
