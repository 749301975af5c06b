"""Draws pictures of recorded runs, as in the article Streaming 102: event time is across, processing time is up.

    result = pipeline.run()                       # of Pipeline(..., record=True)
    plot.save(result.recording, "sums.svg")       # .png and .pdf need matplotlib: pip install 'headrace[plot]'
    plot.html(result.recording, "sums.html")      # one file with a slider over processing time, which plays
    plot.html("state/scores", "scores.html")      # of a checkpoint, which contains the recording

Inputs are circles with their values. The actual watermark is a solid line; the ideal watermark, which knows all later
input, is dashed. A pane is a box over its window, up to the processing time at which the pane was put out; a retraction
is red. For a computation, or a `DoFn` with state, results are flags, and timers that fired are triangles. The picture
of a checkpoint whose run was not recorded has its watermarks, open windows and waiting timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.recording.recording import Recording, StepRecording
from headrace.sdk.visualization.plots.page import page
from headrace.sdk.visualization.plots.panel import panels
from headrace.sdk.visualization.plots.svg import document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATIC = (".svg", ".png", ".pdf")
"""Suffixes of the file names that `save` accepts."""
__all__ = ["figure", "html", "save"]

One = Recording | StepRecording | str | Path
"""A recording, or its place: a file that `Recording.save` wrote, or the directory or URL of a checkpoint."""
Recordings = One | Sequence[One]
"""One recording, or several recordings, which are drawn side by side on the same axes."""


def figure(
    recording: Recordings,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> Figure:
    """Return a matplotlib figure of a recording, or of several recordings side by side.

    >>> from headrace.recording import Arrival, Recording, StepRecording
    >>> step = StepRecording("Sum", arrivals=(Arrival(1_000_000, 5_000_000, "red", 7),))
    >>> figure(Recording((step,)), title="Sums of red").axes[0].get_ylabel()
    'processing time'

    Args:
        recording: A recording such as `result.recording`, one or several steps of a recording, or the place of a file
            or a checkpoint.
        step: Label of the grouping or computation to draw; it may be left out if only one was recorded.
        key: Text of the key to draw; by default the key with most arrivals.
        title: Text above the picture, or one text for each recording; by default the label of the step.

    Raises:
        RecordingError: There is nothing to draw, or no such step or key.
        CheckpointError: There is no checkpoint at the place, or the checkpoint is damaged.
        ImportError: matplotlib is not installed.
    """
    try:
        from headrace.sdk.visualization.plots.figure import figure_of
    except ImportError as missing:
        raise ImportError(
            "figures, PNG and PDF need matplotlib, which is not installed: pip install 'headrace[plot]'; plot.html and "
            "files that end in .svg work without it"
        ) from missing
    return figure_of(panels(_read(recording), step, key, title))


def save(
    recording: Recordings,
    path: str | Path,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> None:
    """Write a static picture, whose format follows from the suffix of the path: `.svg`, `.png` or `.pdf`.

    The other arguments and the errors are those of `figure`, but `.svg` does not need matplotlib. Raises ValueError for
    another suffix.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.recording import Arrival, Recording, StepRecording
    >>> step = StepRecording("Sum", arrivals=(Arrival(1_000_000, 5_000_000, "red", 7),))
    >>> with TemporaryDirectory() as folder:
    ...     save(Recording((step,)), f"{folder}/sum.svg")
    ...     Path(folder, "sum.svg").stat().st_size > 1000
    True
    """
    suffix = Path(path).suffix.lower()
    if suffix not in STATIC:
        raise ValueError(
            f"a picture named {str(path)!r} would be of no kind that is known; end its name in .svg, .png or .pdf, or "
            "write a page that plays, with plot.html"
        )
    if suffix == ".svg":
        Path(path).write_text(document(panels(_read(recording), step, key, title)), encoding="utf-8")
    else:
        # Without a date, equal recordings give equal files.
        how = {"dpi": 200} if suffix == ".png" else {"metadata": {"CreationDate": None}}
        figure(recording, step, key, title).savefig(path, **how)


def html(
    recording: Recordings,
    path: str | Path,
    step: str | None = None,
    key: str | None = None,
    title: str | Sequence[str] | None = None,
) -> None:
    """Write an HTML page with an animated picture and a slider over processing time; the page needs no other files.

    The other arguments and the errors are those of `figure`, but matplotlib is not needed. If the address of the page
    ends in a processing time, such as `#12:07:30`, the page shows this time.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.recording import Arrival, Recording, StepRecording
    >>> step = StepRecording("Sum", arrivals=(Arrival(1_000_000, 5_000_000, "red", 7),))
    >>> with TemporaryDirectory() as folder:
    ...     html(Recording((step,)), f"{folder}/sum.html")
    ...     Path(folder, "sum.html").read_text().startswith("<!DOCTYPE html>")
    True
    """
    Path(path).write_text(page(panels(_read(recording), step, key, title)), encoding="utf-8")


def _read(recording: Recordings) -> list[Recording | StepRecording]:
    # An object of another type is refused when it is drawn, by `panels`.
    is_several = isinstance(recording, Iterable) and not isinstance(recording, (Recording, StepRecording, str, Path))
    several = cast("Sequence[One]", recording if is_several else [recording])
    return [recording_at(its) if isinstance(its, (str, Path)) else its for its in several]
