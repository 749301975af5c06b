"""Pictures of recorded runs, as in the article Streaming 102: event time across, processing time up.

    result = pipeline.run()                       # of Pipeline(..., record=True)
    plot.save(result.recording, "sums.svg")       # or .png, .pdf: needs matplotlib (pip install 'headrace[plot]')
    plot.html(result.recording, "sums.html")      # one file with a slider over processing time, which plays
    plot.html("state/scores", "scores.html")      # of a checkpoint, whose recording lies in it

Inputs are circles with their values; the actual watermark is solid, the ideal one (which knows all that is to come)
dashed. A pane is a box over its window, up to the processing time at which it came; what is taken back is red. Of a
computation, or a `DoFn` with state, results are flags and timers that fired are triangles. Of a checkpoint that was not
recorded there are its watermarks, open windows and waiting timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.sdk.pictures.figure import draw, write
from headrace.sdk.pictures.page import page
from headrace.sdk.pictures.panel import panels
from headrace.sdk.recordedplace import recording_at
from headrace.sdk.recording import Recording, StepRecording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATIC = (".svg", ".png", ".pdf")
"""Ends of the names that `save` writes."""
__all__ = ["figure", "html", "save"]

One = Recording | StepRecording | str | Path
"""A recording, or where one lies: a file that `Recording.save` wrote, or the directory or URL of a checkpoint."""
Recordings = One | Sequence[One]
"""One, or several that are drawn side by side on the same axes."""


def figure(
    recording: Recordings,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> Figure:
    """A matplotlib figure of a recording, or of several side by side.

    Args:
        recording: What `result.recording` is, or one or several steps of it, or the place of a file or checkpoint.
        step: Label of the grouping or computation to draw; may be left out where only one was recorded.
        key: Text of the key to draw; the one with most arrivals if None.
        title: Written above; the label of the step if None. One for each recording.

    Raises:
        RecordingError: There is nothing to draw, or no such step or key.
        CheckpointError: There is no checkpoint at the URL, or it is damaged.
        ImportError: There is no matplotlib.
    """
    return draw(panels(_read(recording), step, key, title))


def save(
    recording: Recordings,
    path: str | Path,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> None:
    """Write a static picture; the end of the name (`.svg`, `.png`, `.pdf`) says of which kind. As `figure`."""
    if Path(path).suffix.lower() not in STATIC:
        raise ValueError(
            f"a picture named {str(path)!r} would be of no kind that is known; end its name in .svg, .png or .pdf, or "
            "write a page that plays, with plot.html"
        )
    write(figure(recording, step, key, title), Path(path))


def html(
    recording: Recordings,
    path: str | Path,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> None:
    """Write a page that plays: one file, which needs nothing else. As `figure`, but without matplotlib.

    `#12:07:30` after its address shows that processing time.
    """
    Path(path).write_text(page(panels(_read(recording), step, key, title)), encoding="utf-8")


def _read(recording: Recordings) -> list[Recording | StepRecording]:
    # What is no recording is refused where it is drawn.
    is_several = isinstance(recording, Iterable) and not isinstance(recording, (Recording, StepRecording, str, Path))
    several = cast("Sequence[One]", recording if is_several else [recording])
    return [recording_at(its) if isinstance(its, (str, Path)) else its for its in several]
