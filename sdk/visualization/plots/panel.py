"""What a picture shows: scenes with their titles, side by side on the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.sdk.pictures.scene import Scene, Spans, of_key, scene
from headrace.sdk.pictures.style import REMARK, TITLE
from headrace.sdk.pictures.words import fitted, printable, wrapped
from headrace.sdk.recording import Recording, RecordingError, StepRecording

_HEIGHT = 430.0
_WIDTHS = (600.0, 460.0, 360.0)
"""Of a panel, where there are one, two or more; pixels."""
_ROOM = 1.15
"""By how much a line of words is narrower than one of digits."""
LINE = 16.0
"""Height of a line of remarks; pixels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A scene with what is written above it."""

    title: str
    remarks: tuple[str, ...]
    """Lines: which key it is, and what was dropped, left out, or not recorded."""
    scene: Scene

    @property
    def remark(self) -> str:
        """In one line."""
        return " ".join(self.remarks)


def panels(
    recordings: Recording | StepRecording | Sequence[Recording | StepRecording],
    step: str | None,
    key: str | None,
    titles: str | Sequence[str] | None,
) -> list[Panel]:
    """A panel for each recording. Raises `RecordingError`, or `ValueError` for another number of titles."""
    given = [recordings] if isinstance(recordings, (Recording, StepRecording)) else list(recordings)
    if not given:
        raise ValueError("there is no recording to draw; give one, or several")
    steps = [_step(its, step) for its in given]
    names = [titles] if isinstance(titles, str) else [its.label for its in steps] if titles is None else list(titles)
    if len(names) != len(steps):
        raise ValueError(f"there are {len(names)} titles for {len(steps)} recordings; give one for each")
    chosen = [of_key(its, key) for its in steps]
    spans = Spans.of(chosen)
    width = _WIDTHS[min(len(steps), len(_WIDTHS)) - 1]
    return [
        _panel(name, whole, one, scene(one, spans, width, _HEIGHT))
        for name, whole, one in zip(names, steps, chosen, strict=True)
    ]


def _step(its: Recording | StepRecording, label: str | None) -> StepRecording:
    if isinstance(its, StepRecording):
        return its
    if isinstance(its, Recording):
        return its.step(label)
    raise RecordingError(
        f"a picture is drawn of a recording, got {its!r:.80}; give result.recording of a run with record=True"
    )


def _panel(title: str, whole: StepRecording, one: StepRecording, made: Scene) -> Panel:
    width = made.width
    text = "; ".join([*_remarks(whole, one), *made.remarks])
    return Panel(fitted(title, width, TITLE), tuple(wrapped(text, width * _ROOM, REMARK)), made)


def _remarks(whole: StepRecording, one: StepRecording) -> Iterator[str]:
    keys = whole.keys()
    if (standing := whole.standing) is not None:
        yield "not recorded: of inputs and results nothing is known"
        if len(one.keys()) == 1 and len(keys) > 1:
            yield f"key {printable(one.keys()[0])} of {len(keys):,} keys"
        if standing.pending:
            yield f"{standing.pending:,} records on their way"
        if standing.beyond:
            yield f"{standing.beyond:,} more windows and timers"
        yield "to have all, run with --record"
    elif len(keys) > 1 and one.keys():
        yield f"key {printable(one.keys()[0])} of {len(keys):,} keys"
    if whole.dropped:
        yield f"{whole.dropped:,} dropped, as the window was closed"
    if whole.left_out:
        yield f"{whole.left_out:,} left out, beyond the limit"
    if missing := whole.unrecorded if whole.epochs else []:
        yield f"not recorded: {_named(missing)}"


def _named(runs: Sequence[tuple[int, int]]) -> str:
    """Runs of epochs, in words.

    >>> _named([(4, 4), (6, 9)])
    'epoch 4, epochs 6 to 9'
    """
    named = [f"epoch {first:,}" if first == last else f"epochs {first:,} to {last:,}" for first, last in runs[:3]]
    return ", ".join(named) + (", …" if len(runs) > 3 else "")
