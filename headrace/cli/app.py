"""The commands together."""

from __future__ import annotations

from typing import Annotated

import typer

import headrace
from headrace.cli.draw import draw
from headrace.cli.explain import explain
from headrace.cli.inspect import inspect
from headrace.cli.new import new
from headrace.cli.run import run

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Run event-time pipelines on Apache Spark, and look into what they keep."""


for command in (run, inspect, explain, draw, new):
    app.command()(command)
