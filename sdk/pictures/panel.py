"""What a picture shows: scenes with their titles, side by side on the same axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.pictures.scene import Scene, Spans, of_key, scene
from headrace.sdk.recording import Recording, StepRecording

_HEIGHT = 430.0
_WIDTHS = (600.0, 460.0, 360.0)
"""Of a panel, where there are one, two or more; pixels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A scene with what is written above it."""

    title: str
    remark: str
    """Which key it is, and what was dropped or left out."""
    scene: Scene


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
    steps = [its if isinstance(its, StepRecording) else its.step(step) for its in given]
    names = [titles] if isinstance(titles, str) else [its.label for its in steps] if titles is None else list(titles)
    if len(names) != len(steps):
        raise ValueError(f"there are {len(names)} titles for {len(steps)} recordings; give one for each")
    chosen = [of_key(its, key) for its in steps]
    spans = Spans.of(chosen)
    width = _WIDTHS[min(len(steps), len(_WIDTHS)) - 1]
    return [
        Panel(name, _remark(whole, one), scene(one, spans, width, _HEIGHT))
        for name, whole, one in zip(names, steps, chosen, strict=True)
    ]


def _remark(whole: StepRecording, one: StepRecording) -> str:
    keys = whole.keys()
    remarks = [f"key {one.keys()[0]} of {len(keys)} keys"] if len(keys) > 1 and one.keys() else []
    if whole.dropped:
        remarks.append(f"{whole.dropped} dropped, as the window was closed")
    if whole.left_out:
        remarks.append(f"{whole.left_out} left out, beyond the limit")
    return "; ".join(remarks)
