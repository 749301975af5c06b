"""Pictures of recorded runs, as in the article Streaming 102: event time across, processing time up.

    result = pipeline.run()                       # of Pipeline(..., record=True)
    plot.save(result.recording, "sums.svg")       # or .png, .pdf: needs matplotlib (pip install 'headrace[plot]')
    plot.html(result.recording, "sums.html")      # one file with a slider over processing time, which plays

Inputs are circles with their values; the actual watermark is solid, the ideal one (which knows all that is to come)
dashed. A pane is a box over its window, up to the processing time at which it came; what is taken back is red.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk.pictures.figure import draw, write
from headrace.sdk.pictures.page import page
from headrace.sdk.pictures.panel import panels
from headrace.sdk.recording import Recording, StepRecording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure", "html", "save"]

Recordings = Recording | StepRecording | Sequence[Recording | StepRecording]
"""One, or several that are drawn side by side on the same axes."""


def figure(
    recording: Recordings,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> Figure:
    """A matplotlib figure of a recording, or of several side by side.

    Args:
        recording: What `result.recording` is, or one or several steps of it.
        step: Label of the grouping to draw; may be left out where only one was recorded.
        key: Text of the key to draw; the one with most arrivals if None.
        title: Written above; the label of the step if None. One for each recording.

    Raises:
        RecordingError: There is nothing to draw, or no such step or key.
        ImportError: There is no matplotlib.
    """
    return draw(panels(recording, step, key, title))


def save(
    recording: Recordings,
    path: str | Path,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> None:
    """Write a static picture; the end of the name (`.svg`, `.png`, `.pdf`) says of which kind. As `figure`."""
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
    Path(path).write_text(page(panels(recording, step, key, title)), encoding="utf-8")
