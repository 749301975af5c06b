"""`headrace draw`: the pipeline as a picture, as it is written and as it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.ending import MisuseError, endings
from headrace.cli.run import Options, Target, flags_of
from headrace.cli.target import Program, load
from headrace.lowlevel.topology import Topology
from headrace.sdk.drawing.compiled import compiled
from headrace.sdk.drawing.drawing import Drawing
from headrace.sdk.drawing.mermaid import mermaid
from headrace.sdk.drawing.svg import svg
from headrace.sdk.drawing.written import written


class View(StrEnum):
    """Which picture."""

    WRITTEN = "written"
    COMPILED = "compiled"


def draw(
    target: Target,
    view: Annotated[View, typer.Option(help="The steps of the program, or how they run: levels, chains, shuffles.")] = (
        View.WRITTEN
    ),
    output: Annotated[
        Path | None, typer.Option(help="A file that ends in .svg or .mmd; Mermaid on the screen if not given.")
    ] = None,
    option: Options = None,
) -> None:
    """Draw a pipeline. Nothing is run.

    Thick arrows are shuffles by key, dashed ones side inputs. Mermaid text is shown as a picture by GitHub, GitLab and
    many editors; SVG needs the extra "plot".

    Example: headrace draw scores.py:pipeline --output=scores.svg
    """
    with endings():
        text = _text(drawing_of(load(target, None, flags_of(option or [])), view), output)
        if output is not None:
            _write(output, text)
    typer.echo(text if output is None else f"written: {output}")


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"--output {output} cannot be written ({error.strerror}); give a place that can") from error


def drawing_of(program: Program, view: View) -> Drawing:
    """The picture asked for; a topology is only what it is."""
    if isinstance(program, Topology):
        return compiled(program)
    return written(program) if view is View.WRITTEN else compiled(program.topology())


def _text(drawing: Drawing, output: Path | None) -> str:
    if output is None or output.suffix == ".mmd":
        return mermaid(drawing)
    if output.suffix != ".svg":
        raise MisuseError(
            f"--output {output} ends in {output.suffix or 'nothing'}; give a name that ends in .svg or .mmd"
        )
    try:
        return svg(drawing)
    except ImportError as error:
        raise MisuseError(str(error)) from error
