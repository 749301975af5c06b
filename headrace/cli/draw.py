"""The command `headrace draw`: draws a pipeline, as it is written or as it is compiled."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.ending import MisuseError, as_misuse, endings, writing
from headrace.cli.run import Options, Target, flags_of
from headrace.cli.target import Program, load
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.visualization.diagrams.diagram import Diagram, mermaid
from headrace.sdk.visualization.diagrams.program_diagrams import pipeline_diagram, topology_diagram
from headrace.sdk.visualization.diagrams.svg import svg


class View(StrEnum):
    """The kinds of pictures of a pipeline."""

    WRITTEN = "written"
    COMPILED = "compiled"


def draw(
    target: Target,
    view: Annotated[View, typer.Option(help="The steps of the program, or how they run: levels, chains, shuffles.")] = (
        View.WRITTEN
    ),
    output: Annotated[
        Path | None, typer.Option(help="A file that ends in .svg or .mmd; if not given, Mermaid is printed.")
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
            with writing(output):
                output.write_text(text, encoding="utf-8")
    typer.echo(text if output is None else f"written: {output}")


def drawing_of(program: Program, view: View) -> Diagram:
    """Return the diagram of a program. A topology has one kind of diagram only, so `view` is ignored for it."""
    if isinstance(program, Topology):
        return topology_diagram(program)
    return pipeline_diagram(program) if view is View.WRITTEN else topology_diagram(program.topology())


def _text(drawing: Diagram, output: Path | None) -> str:
    if output is None or output.suffix == ".mmd":
        return mermaid(drawing)
    if output.suffix != ".svg":
        raise MisuseError(
            f"--output {output} ends in {output.suffix or 'nothing'}; give a name that ends in .svg or .mmd"
        )
    with as_misuse(ImportError):
        return svg(drawing)
