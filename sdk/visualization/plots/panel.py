"""The panels of a plot: scenes with titles, side by side on the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.sdk.recording.recording import Recording, RecordingError, StepRecording
from headrace.sdk.visualization.plots.labels import fitted_text, printable_text, wrapped_lines
from headrace.sdk.visualization.plots.scene import Scene, Spans, recording_of_key, scene
from headrace.sdk.visualization.plots.style import REMARK, TITLE

_HEIGHT = 430.0
_WIDTHS = (600.0, 460.0, 360.0)
"""Width of a panel if there are one, two, or more; pixels."""
_WORDS_RATIO = 1.15
"""Ratio of the width of a line of digits to that of a line of words with as many letters."""
LINE = 16.0
"""Height of a line of remarks; pixels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A scene with title and remarks."""

    title: str
    remarks: tuple[str, ...]
    """Lines of text: the key, and the number of items dropped, left out or not recorded."""
    scene: Scene

    @property
    def remark(self) -> str:
        """The remarks in one line."""
        return " ".join(self.remarks)


def panels(
    recordings: Recording | StepRecording | Sequence[Recording | StepRecording],
    step: str | None,
    key: str | None,
    titles: str | Sequence[str] | None,
) -> list[Panel]:
    """A panel for each recording.

    Raises `RecordingError` for an object that is no recording or has nothing to draw, and `ValueError` for no recording
    or another number of titles.
    """
    given = [recordings] if isinstance(recordings, (Recording, StepRecording)) else list(recordings)
    if not given:
        raise ValueError("there is no recording to draw; give one or more")
    steps = [_step(recording, step) for recording in given]
    labels = [recording.label for recording in steps]
    names = [titles] if isinstance(titles, str) else labels if titles is None else list(titles)
    if len(names) != len(steps):
        raise ValueError(f"there are {len(names)} titles for {len(steps)} recordings; give one for each")
    chosen = [recording_of_key(recording, key) for recording in steps]
    spans = Spans.of(chosen)
    width = _WIDTHS[min(len(steps), len(_WIDTHS)) - 1]
    return [
        _panel(name, whole, part, scene(part, spans, width, _HEIGHT))
        for name, whole, part in zip(names, steps, chosen, strict=True)
    ]


def _step(recording: Recording | StepRecording, label: str | None) -> StepRecording:
    if isinstance(recording, StepRecording):
        return recording
    if isinstance(recording, Recording):
        return recording.step(label)
    raise RecordingError(
        f"a picture is drawn of a recording, got {recording!r:.80}; give result.recording of a run with record=True"
    )


def _panel(title: str, whole: StepRecording, part: StepRecording, layout: Scene) -> Panel:
    text = "; ".join([*_remarks(whole, part), *layout.remarks])
    remarks = tuple(wrapped_lines(text, layout.width * _WORDS_RATIO, REMARK))
    return Panel(fitted_text(title, layout.width, TITLE), remarks, layout)


def _remarks(whole: StepRecording, part: StepRecording) -> Iterator[str]:
    """The remarks on a recording, of which `part` is drawn."""
    keys = whole.keys()
    if (snapshot := whole.standing) is not None:
        yield "not recorded: inputs and results are unknown"
        if len(part.keys()) == 1 and len(keys) > 1:
            yield f"key {printable_text(part.keys()[0])} of {len(keys):,} keys"
        if snapshot.pending:
            yield f"{snapshot.pending:,} records on their way"
        if snapshot.beyond:
            yield f"{snapshot.beyond:,} more windows and timers"
        yield "for the whole plot, run with --record"
    elif len(keys) > 1 and part.keys():
        yield f"key {printable_text(part.keys()[0])} of {len(keys):,} keys"
    if whole.dropped:
        yield f"{whole.dropped:,} dropped, as the window was closed"
    if whole.left_out:
        yield f"{whole.left_out:,} left out, beyond the limit"
    if missing := whole.unrecorded if whole.epochs else []:
        yield f"not recorded: {_epoch_names(missing)}"


def _epoch_names(ranges: Sequence[tuple[int, int]]) -> str:
    """Ranges of epochs (first and last), in words; at most three of them.

    >>> _epoch_names([(4, 4), (6, 9)])
    'epoch 4, epochs 6 to 9'
    """
    named = [f"epoch {first:,}" if first == last else f"epochs {first:,} to {last:,}" for first, last in ranges[:3]]
    return ", ".join(named) + (", …" if len(ranges) > 3 else "")
