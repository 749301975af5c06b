"""The command `headrace plot`: draws a recorded run, or the watermarks and state of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import headrace.plot as pictures
from headrace.cli.ending import MisuseError, as_misuse, endings, writing
from headrace.lowlevel import CheckpointError
from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.recording.recording import NO_STEPS, NOT_RECORDED, Recording, RecordingError

_PAGES = (".html", ".htm")


def plot(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Directory or URL of a checkpoint, or a file of --record_to.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="A file that ends in .html (an animation), .svg, .png or .pdf; if not given, the steps are listed."
        ),
    ] = None,
    step: Annotated[str | None, typer.Option(help="Label of the step to draw, if there are several.")] = None,
    key: Annotated[str | None, typer.Option(help="Key to draw; the one with most inputs if not given.")] = None,
    title: Annotated[
        str | None, typer.Option(help="Title above the picture; the label of the step if not given.")
    ] = None,
) -> None:
    """Draw a run: inputs, watermarks, panes and timers over event time and processing time.

    A run with --record has its recording in its checkpoint, over all its epochs, however often it was killed. Of a run
    that was not recorded the picture shows what the checkpoint knows: watermarks of its last epochs, open windows,
    timers that wait. Reads only. Ends with 0, or with 2 when there is nothing to draw.

    Example: headrace plot state/scores --step=Totals --output=totals.html
    """
    with endings(), as_misuse(RecordingError, CheckpointError, ImportError, OSError):
        recording = recording_at(source)
        if output is None:
            _list(recording)
            return
        with writing(output):
            _write(recording, output, step, key, title)
    typer.echo(f"written: {output}")
    if _is_empty(recording):
        typer.echo(NOT_RECORDED)


def _is_empty(recording: Recording) -> bool:
    """Whether no step was recorded, only read from the checkpoint."""
    return all(step.standing is not None for step in recording.steps)


def _write(recording: Recording, output: Path, step: str | None, key: str | None, title: str | None) -> None:
    if output.suffix.lower() in _PAGES:
        pictures.html(recording, output, step, key, title)
    elif output.suffix.lower() in pictures.STATIC:
        pictures.save(recording, output, step, key, title)
    else:
        raise MisuseError(
            f"--output {output} ends in {output.suffix or 'nothing'}; give a name that ends in .html, .svg, .png or "
            ".pdf"
        )


def _list(recording: Recording) -> None:
    if not recording.steps:
        raise RecordingError(f"there is nothing to draw: {NO_STEPS}")
    for step in recording.steps:
        if (standing := step.standing) is not None:
            told = f"not recorded; {len(standing.windows):,} open windows, {len(standing.timers):,} waiting timers"
        else:
            results = len(step.panes) + len(step.productions)
            told = f"{len(step.arrivals):,} inputs, {results:,} results, {len(step.keys()):,} keys"
        typer.echo(f"{step.label}: {told}")
    if _is_empty(recording):
        typer.echo(NOT_RECORDED)
    typer.echo("give --output=PICTURE.html to draw one, and --step=LABEL to say which")
