"""The command line: `headrace`, or `python -m headrace`."""

from __future__ import annotations

from typing import Annotated

import typer

import headrace

app = typer.Typer(no_args_is_help=True, add_completion=False)


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


if __name__ == "__main__":
    app(prog_name="headrace")
