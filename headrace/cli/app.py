"""The commands together. Each is loaded when it is called, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

import headrace
from headrace.cli.flags import PipelineCommand

# Typer's click is a part of itself in newer releases and a package of its own for older ones.
_Context = Any
_Command = Any

SUMMARIES = {
    "run": "Run a pipeline to the end of its input.",
    "inspect": "Show what a checkpoint holds: epochs, watermarks and who holds them, timers, state, records.",
    "explain": "Say which way each step goes, and, of a run, what keeps its watermarks back.",
    "draw": "Draw a pipeline. Nothing is run.",
    "plot": "Draw a run: inputs, watermarks, panes and timers over event time and processing time.",
    "options": "List the options of a pipeline.",
    "new": "Make a small project: a pipeline, some data and a test.",
}
"""Command -> the first line of its help; the module of its name has the rest."""


def _loaded(name: str) -> _Command:
    function = getattr(import_module(f"headrace.cli.{name}"), name)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=PipelineCommand, help=_paragraphs(function.__doc__))(function)
    return typer.main.get_command(alone)


def _paragraphs(text: str) -> str:
    r"""A docstring with a line for each paragraph, which a terminal folds where it ends.

    >>> _paragraphs("Run.\n\n    To the\n    end.")
    'Run.\n\nTo the end.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


class _Commands(TyperGroup):
    """A group of commands that loads no more than the one that is called."""

    def __init__(self, **settings: object) -> None:
        # What settings there are is typer's own business.
        super().__init__(**cast("dict[str, Any]", settings))
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in SUMMARIES.items()}

    def resolve_command(self, ctx: _Context, args: list[str]) -> tuple[str | None, _Command, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _loaded(name), rest


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
