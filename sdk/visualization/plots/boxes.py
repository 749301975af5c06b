"""Panes as boxes: as wide as the window, from the previous pane (or first arrival) up to the pane's processing time.

So the boxes of one window do not cover each other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.recording.recording import Arrival, RecordedPane, StepRecording
from headrace.sdk.visualization.plots.axis import Axis
from headrace.sdk.visualization.plots.downsampling import MOST_BOXES, even_sample
from headrace.sdk.visualization.plots.labels import GAP, Labels, Rectangle, retracted_label, value_label, width_of
from headrace.sdk.visualization.plots.style import VALUE

_FEW = 20
"""Number of panes up to which values wider than their boxes are written."""
_LEAST_HEIGHT = 23.0
"""Least height of a box whose value can be read."""


@dataclass(frozen=True, slots=True)
class PaneBox:
    """A pane, with the panes that are retracted together with it."""

    room: Rectangle
    """The area of the box on the canvas."""
    pane: RecordedPane
    since: int
    """Processing time from which on the box grows: the window has its final bounds and an arrival."""
    text: str
    """The value; empty for retractions without a new value."""
    takes_back: tuple[RecordedPane, ...]
    label: tuple[float, float] | None
    """Centre of the text; None if there is no room for it."""

    @property
    def retracted_texts(self) -> list[str]:
        """Texts of the retracted values."""
        return [retracted_label(pane.value) for pane in self.takes_back]


@dataclass(frozen=True, slots=True)
class _Group:
    """The panes of one box."""

    pane: RecordedPane
    takes_back: list[RecordedPane]


class Boxes:
    """The boxes of one step and key."""

    def __init__(self, step: StepRecording, across: Axis, up: Axis, labels: Labels) -> None:
        self._across, self._up, self._labels = across, up, labels
        self._results = [pane for pane in step.panes if not pane.is_retraction]
        self._groups = _groups(step.panes, self._results)
        self._of_one_length = len({_length(pane) for pane in step.panes}) < 2
        """Whether all windows have one length; the windows of sessions grow with their elements."""
        self._by_event: list[Arrival] = sorted(step.arrivals, key=lambda arrival: arrival.event_time)
        self._event_times = [arrival.event_time for arrival in self._by_event]

    @property
    def number(self) -> int:
        """The number of boxes, drawn or not."""
        return len(self._groups)

    def drawn_boxes(self) -> tuple[PaneBox, ...]:
        """A box for each pane; of more than `MOST_BOXES`, some of the last boxes of the windows."""
        groups = self._groups
        if len(groups) > MOST_BOXES:
            last = {
                (group.pane.start, group.pane.end, group.pane.is_retraction): number
                for number, group in enumerate(groups)
            }
            groups = even_sample([groups[number] for number in sorted(last.values())], MOST_BOXES)
        return tuple(map(self._box, groups))

    def _box(self, group: _Group) -> PaneBox:
        pane, retracted = group.pane, group.takes_back
        arrivals = self._arrivals(pane)
        since = pane.processing_time if pane.is_retraction else self._since(pane, arrivals)
        room = self._room(pane, since)
        grows_from = since if self._of_one_length else max(since, max(arrivals, default=pane.processing_time))
        text = "" if pane.is_retraction else value_label(pane.value)
        whole = GAP.join(filter(None, [text, *(retracted_label(other.value) for other in retracted)]))
        # Among many boxes, a text beside its box would seem to belong to another box.
        fits = len(self._groups) <= _FEW or width_of(whole, VALUE) <= room.right - room.left
        label = self._labels.place(whole, VALUE, room) if fits else None
        return PaneBox(room, pane, grows_from, text, tuple(retracted), None if label is None else label.middle)

    def _room(self, pane: RecordedPane, since: int) -> Rectangle:
        left = self._across.position(pane.start, self._across.at_first)
        right = self._across.position(pane.end, self._across.at_last)
        top = self._up.position(pane.processing_time)
        return Rectangle(left, top, right, max(self._up.position(since), top + _LEAST_HEIGHT))

    def _since(self, pane: RecordedPane, arrivals: Sequence[int]) -> int:
        before = [
            other.processing_time
            for other in self._results
            if other.processing_time < pane.processing_time and _contains(pane, other.start, other.end)
        ]
        return max(before) if before else min(arrivals, default=pane.processing_time)

    def _arrivals(self, pane: RecordedPane) -> list[int]:
        """Processing times of the arrivals in a pane's window, up to the pane."""
        first, last = 0, len(self._by_event)
        if pane.start is not None and pane.end is not None:
            first, last = bisect_left(self._event_times, pane.start), bisect_left(self._event_times, pane.end)
        times = (arrival.processing_time for arrival in self._by_event[first:last])
        return [time for time in times if time <= pane.processing_time]


def _length(pane: RecordedPane) -> int | None:
    return None if pane.start is None or pane.end is None else pane.end - pane.start


def _groups(panes: Sequence[RecordedPane], results: Sequence[RecordedPane]) -> list[_Group]:
    """Groups of panes: a retraction is in the group of the pane that replaces it, or in a group of retractions."""
    found = [_Group(pane, []) for pane in results]
    by_time: dict[int, list[_Group]] = {}
    for group in found:
        by_time.setdefault(group.pane.processing_time, []).append(group)
    alone: dict[tuple[int, int | None, int | None], _Group] = {}
    for pane in panes:
        if pane.is_retraction:
            window = pane.processing_time, pane.start, pane.end
            replaced = _replacement(pane, by_time.get(pane.processing_time, ()))
            group = alone.setdefault(window, _Group(pane, [])) if replaced is None else replaced
            group.takes_back.append(pane)
    return [*found, *alone.values()]


def _replacement(retraction: RecordedPane, groups: Sequence[_Group]) -> _Group | None:
    """The group of the pane in the window of a retraction, or in a window that contains it."""
    return next((group for group in groups if _contains(group.pane, retraction.start, retraction.end)), None)


def _contains(pane: RecordedPane, start: int | None, end: int | None) -> bool:
    """Whether the pane's window contains a window with these bounds."""
    if pane.start is None or pane.end is None:
        return True
    return start is not None and end is not None and pane.start <= start and end <= pane.end
