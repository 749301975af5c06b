"""Panes as boxes: each over its window, from the pane before it, or what first came in its window, up to when it came.

So boxes of one window do not cover each other, and the upper edge is the processing time at which a pane was put out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.pictures.axis import Axis
from headrace.sdk.pictures.placing import GAP, Labels, Rectangle, width_of
from headrace.sdk.pictures.style import VALUE
from headrace.sdk.pictures.thinning import MOST_BOXES, evenly
from headrace.sdk.pictures.words import minus, shown
from headrace.sdk.recording import Arrival, RecordedPane, StepRecording

_FEW = 20
"""Panes whose values are written even where they are wider than their boxes."""
_LEAST_HEIGHT = 23.0
"""Of a box, so that its value can be read."""


@dataclass(frozen=True, slots=True)
class Box:
    """A pane, with the panes that it takes back."""

    room: Rectangle
    pane: RecordedPane
    since: int
    """Processing time from which on its contents came together, and its window was this one."""
    text: str
    """Its value; empty for retractions alone."""
    takes_back: tuple[RecordedPane, ...]
    label: tuple[float, float] | None
    """Centre of the value and what is taken back; None if there is no room for a text."""

    @property
    def taken_back(self) -> list[str]:
        """The values taken back, as they are written."""
        return [minus(pane.value) for pane in self.takes_back]


@dataclass(frozen=True, slots=True)
class _Group:
    """What becomes one box."""

    pane: RecordedPane
    takes_back: list[RecordedPane]


class Boxes:
    """Of one step and key."""

    def __init__(self, step: StepRecording, across: Axis, up: Axis, labels: Labels) -> None:
        self._across, self._up, self._labels = across, up, labels
        self._results = [pane for pane in step.panes if not pane.is_retraction]
        self._groups = _groups(step.panes, self._results)
        self._of_one_length = len({_length(its) for its in step.panes}) < 2
        """Whether windows are what they are from the beginning; sessions grow with what arrives."""
        self._by_event: list[Arrival] = sorted(step.arrivals, key=lambda its: its.event_time)
        self._event_times = [its.event_time for its in self._by_event]

    @property
    def number(self) -> int:
        """How many there are, drawn or not."""
        return len(self._groups)

    def all(self) -> tuple[Box, ...]:
        """A box for each pane; of too many the last of each window, and of these some."""
        groups = self._groups
        if len(groups) > MOST_BOXES:
            last = {(its.pane.start, its.pane.end, its.pane.is_retraction): number for number, its in enumerate(groups)}
            groups = evenly([groups[number] for number in sorted(last.values())], MOST_BOXES)
        return tuple(map(self._box, groups))

    def _box(self, group: _Group) -> Box:
        pane, taken = group.pane, group.takes_back
        arrived = self._arrived(pane)
        since = pane.processing_time if pane.is_retraction else self._since(pane, arrived)
        room = self._room(pane, since)
        known = since if self._of_one_length else max(since, max(arrived, default=pane.processing_time))
        text = "" if pane.is_retraction else shown(pane.value)
        whole = GAP.join(filter(None, [text, *(minus(its.value) for its in taken)]))
        # Where there are many, what does not fit into its box would seem to belong to others.
        fits = len(self._groups) <= _FEW or width_of(whole, VALUE) <= room.right - room.left
        place = self._labels.place(whole, VALUE, room) if fits else None
        return Box(room, pane, known, text, tuple(taken), None if place is None else place.middle)

    def _room(self, pane: RecordedPane, since: int) -> Rectangle:
        left = self._across.place(pane.start, self._across.at_first)
        right = self._across.place(pane.end, self._across.at_last)
        top = self._up.place(pane.processing_time)
        return Rectangle(left, top, right, max(self._up.place(since), top + _LEAST_HEIGHT))

    def _since(self, pane: RecordedPane, arrived: Sequence[int]) -> int:
        before = [
            its.processing_time
            for its in self._results
            if its.processing_time < pane.processing_time and _contains(pane, its.start, its.end)
        ]
        return max(before) if before else min(arrived, default=pane.processing_time)

    def _arrived(self, pane: RecordedPane) -> list[int]:
        """Processing times of what had arrived in its window."""
        first, last = 0, len(self._by_event)
        if pane.start is not None and pane.end is not None:
            first, last = bisect_left(self._event_times, pane.start), bisect_left(self._event_times, pane.end)
        came = (its.processing_time for its in self._by_event[first:last])
        return [time for time in came if time <= pane.processing_time]


def _length(pane: RecordedPane) -> int | None:
    return None if pane.start is None or pane.end is None else pane.end - pane.start


def _groups(panes: Sequence[RecordedPane], results: Sequence[RecordedPane]) -> list[_Group]:
    """A retraction goes to the pane that came with it, and is by itself otherwise."""
    found = [_Group(pane, []) for pane in results]
    at: dict[int, list[_Group]] = {}
    for group in found:
        at.setdefault(group.pane.processing_time, []).append(group)
    alone: dict[tuple[int, int | None, int | None], _Group] = {}
    for pane in panes:
        if pane.is_retraction:
            window = pane.processing_time, pane.start, pane.end
            replaced = _replacement(pane, at.get(pane.processing_time, ()))
            group = alone.setdefault(window, _Group(pane, [])) if replaced is None else replaced
            group.takes_back.append(pane)
    return [*found, *alone.values()]


def _replacement(taken_back: RecordedPane, together: Sequence[_Group]) -> _Group | None:
    """The pane that has the window of a retraction, or the window that it became part of."""
    return next((group for group in together if _contains(group.pane, taken_back.start, taken_back.end)), None)


def _contains(pane: RecordedPane, start: int | None, end: int | None) -> bool:
    """Whether the pane's window has all of a span of event time."""
    if pane.start is None or pane.end is None:
        return True
    return start is not None and end is not None and pane.start <= start and end <= pane.end
