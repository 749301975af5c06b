"""Where: the things in a picture of one grouping, on a canvas (x to the right, y down, one unit a pixel).

A pane is a box over its window, from the pane before it, or the first arrival in its window, up to when it came: its
upper edge is the processing time at which it was put out. So boxes of one window do not cover each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.sdk.pictures.axis import Axis
from headrace.sdk.pictures.placing import GAP, Labels, Rectangle
from headrace.sdk.pictures.style import VALUE
from headrace.sdk.recording import Arrival, RecordedPane, RecordingError, StepRecording, Value

Point = tuple[float, float]

_LEAST_HEIGHT = 23.0
"""Of a box, so that its value can be read."""
_RADIUS, _SMALL_RADIUS = 10.0, 4.0
_FEW = 80
"""Arrivals that are drawn with their values."""
_LONG = 14
_AROUND = 30_000_000
"""Before and after, where everything is at one time; microseconds."""


@dataclass(frozen=True, slots=True)
class Dot:
    """An arrival."""

    x: float
    y: float
    radius: float
    text: str
    """Its value, or nothing where there is no room."""
    arrival: Arrival


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
    label: Point | None
    """Centre of the value and what is taken back; None if there is no room for a text."""

    @property
    def taken_back(self) -> list[str]:
        """The values taken back, as they are written."""
        return [minus(pane.value) for pane in self.takes_back]


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything in the picture of one grouping and key."""

    width: float
    height: float
    event_time: Axis
    processing_time: Axis
    dots: tuple[Dot, ...]
    boxes: tuple[Box, ...]
    actual: tuple[Point, ...]
    """The watermark."""
    ideal: tuple[Point, ...]
    """One that knows all that is to come."""


@dataclass(frozen=True, slots=True)
class Spans:
    """The times that a picture, or several side by side, show; microseconds."""

    event_time: tuple[int, int]
    processing_time: tuple[int, int]

    @classmethod
    def of(cls, steps: Sequence[StepRecording]) -> Spans:
        """Room for all arrivals and panes."""
        events = [arrival.event_time for step in steps for arrival in step.arrivals]
        events += [end for step in steps for pane in step.panes for end in (pane.start, pane.end) if end is not None]
        seen = [its.processing_time for step in steps for its in step.arrivals]
        seen += [its.processing_time for step in steps for its in step.panes]
        if not seen:
            raise RecordingError(
                "the recording has no arrivals and no panes, so there is nothing to draw; "
                "record a run in which elements reach the grouping"
            )
        return cls(_padded(events, 0.02, 0.02), _padded(seen, 0.07, 0.05))


def _padded(times: Sequence[int], before: float, after: float) -> tuple[int, int]:
    first, last = min(times, default=0), max(times, default=0)
    if first == last:
        return first - _AROUND, last + _AROUND
    return first - max(1, round((last - first) * before)), last + max(1, round((last - first) * after))


def of_key(step: StepRecording, key: str | None) -> StepRecording:
    """What was seen of one key: the one named, or else the one with most arrivals. Raises `RecordingError`."""
    keys = step.keys()
    if key is None:
        key = keys[0] if keys else ""
    elif key not in keys:
        known = ", ".join(map(repr, keys[:10])) + (", …" if len(keys) > 10 else "")
        raise RecordingError(f"step {step.label!r} has seen no key {key!r}; it has seen {known or 'none'}")
    arrivals = tuple(its for its in step.arrivals if its.key == key)
    return replace(step, arrivals=arrivals, panes=tuple(its for its in step.panes if its.key == key))


def scene(step: StepRecording, spans: Spans, width: float, height: float) -> Scene:
    """Lay out the arrivals, the panes (of one key) and the watermarks of a step."""
    across = Axis(*spans.event_time, 0.0, width)
    up = Axis(*spans.processing_time, height, 0.0)
    moves = [(move.processing_time, move.watermark) for move in step.watermarks]
    actual = _line(moves, across, up)
    ideal = _ideal(step.arrivals, across, up)
    dots = _dots(step.arrivals, across, up)
    labels = Labels([_square(dot) for dot in dots], _segments(actual) + _segments(ideal))
    boxes = _Boxes(step, across, up, labels).all()
    return Scene(width, height, across, up, dots, boxes, actual, ideal)


# Watermarks


def _to_come(arrivals: Sequence[Arrival], first: int) -> list[tuple[int, int | None]]:
    """Processing times, and the oldest event time that is still to come from then on; None if there is none.

    >>> _to_come([Arrival(3, 10, "a", 1), Arrival(1, 12, "a", 1), Arrival(8, 15, "a", 1)], 9)
    [(9, 1), (10, 1), (12, 8), (15, None)]
    """
    moves: list[tuple[int, int | None]] = []
    oldest: int | None = None
    for arrival in sorted(arrivals, key=lambda its: -its.processing_time):
        if not moves or moves[-1][0] != arrival.processing_time:
            moves.append((arrival.processing_time, oldest))
        oldest = arrival.event_time if oldest is None else min(oldest, arrival.event_time)
    return [(first, oldest), *moves[::-1]] if arrivals else []


def _ideal(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Point, ...]:
    """The watermark of one who knows what is to come; not ahead of the clock, unless elements are."""
    foretold = any(its.event_time > its.processing_time for its in arrivals)
    newest = max((its.event_time for its in arrivals), default=0)
    moves = _to_come(arrivals, up.first)
    points: list[Point] = []
    for number, (time, oldest) in enumerate(moves):
        until = moves[number + 1][0] if number + 1 < len(moves) else up.last
        limit = (newest if foretold else up.last) if oldest is None else oldest
        for now in sorted({time, min(max(time, limit), until), until}):
            watermark = limit if foretold else min(now, limit)
            points.append((across.place(watermark), up.place(now)))
            if watermark >= across.last:
                return tuple(points)
    return tuple(points)


def _line(moves: Sequence[tuple[int, int]], across: Axis, up: Axis) -> tuple[Point, ...]:
    """Up while it stands, then across to where it moves; nothing of it before it is in sight, or beyond.

    It comes from the left edge when it is first in sight, because it was far back before.
    """
    points: list[Point] = []
    for number, (time, watermark) in enumerate(moves):
        if watermark < across.first:
            continue
        if not points:
            points.append((across.at_first, up.place(time)))
        until = moves[number + 1][0] if number + 1 < len(moves) else up.last
        x = across.place(watermark)
        points += [(x, up.place(time)), (x, up.place(until))]
        if watermark >= across.last:
            return tuple(points[:-1])
    return tuple(points)


def _segments(points: Sequence[Point]) -> list[Rectangle]:
    return [
        Rectangle(min(x0, x1) - 2, min(y0, y1) - 2, max(x0, x1) + 2, max(y0, y1) + 2)
        for (x0, y0), (x1, y1) in pairwise(points)
    ]


# Arrivals


def _dots(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Dot, ...]:
    few = len(arrivals) <= _FEW
    dots: list[Dot] = []
    for arrival in arrivals:
        x, y = across.place(arrival.event_time), up.place(arrival.processing_time)
        text = minus(arrival.value) if arrival.is_retraction else shown(arrival.value)
        free = all(abs(x - other.x) + abs(y - other.y) > _RADIUS for other in dots)
        fits = few and len(text) <= 3 and free
        dots.append(Dot(x, y, _RADIUS if fits else _SMALL_RADIUS, text if fits else "", arrival))
    return tuple(dots)


def _square(dot: Dot) -> Rectangle:
    around = dot.radius + 1
    return Rectangle(dot.x - around, dot.y - around, dot.x + around, dot.y + around)


# Panes


@dataclass(slots=True)
class _Boxes:
    step: StepRecording
    across: Axis
    up: Axis
    labels: Labels

    @property
    def _of_one_length(self) -> bool:
        """Whether windows are what they are from the beginning; sessions grow with what arrives."""
        return (
            len({None if its.start is None or its.end is None else its.end - its.start for its in self.step.panes}) < 2
        )

    def _last_arrival(self, pane: RecordedPane) -> int:
        return max(self._arrived(pane), default=pane.processing_time)

    def all(self) -> tuple[Box, ...]:
        """A box for each pane; a retraction goes to the pane that came with it, and has a box of its own otherwise."""
        panes = self.step.panes
        results = [pane for pane in panes if not pane.is_retraction]
        alone: dict[RecordedPane, list[RecordedPane]] = {pane: [] for pane in results}
        for pane in panes:
            if pane.is_retraction:
                alone.setdefault(_replacement(pane, results) or pane, []).append(pane)
        return tuple(self._box(pane, taken, results) for pane, taken in alone.items())

    def _box(self, pane: RecordedPane, taken: Sequence[RecordedPane], results: Sequence[RecordedPane]) -> Box:
        since = pane.processing_time if pane.is_retraction else self._since(pane, results)
        room = self._room(pane, since)
        known = since if self._of_one_length else max(since, self._last_arrival(pane))
        text = "" if pane.is_retraction else shown(pane.value)
        whole = GAP.join(filter(None, [text, *(minus(its.value) for its in taken)]))
        place = self.labels.place(whole, VALUE, room)
        return Box(room, pane, known, text, tuple(taken), None if place is None else place.middle)

    def _room(self, pane: RecordedPane, since: int) -> Rectangle:
        left = self.across.place(pane.start, self.across.at_first)
        right = self.across.place(pane.end, self.across.at_last)
        top = self.up.place(pane.processing_time)
        return Rectangle(left, top, right, max(self.up.place(since), top + _LEAST_HEIGHT))

    def _since(self, pane: RecordedPane, results: Sequence[RecordedPane]) -> int:
        before = [
            its.processing_time
            for its in results
            if its.processing_time < pane.processing_time and _contains(pane, its.start, its.end)
        ]
        return max(before) if before else min(self._arrived(pane), default=pane.processing_time)

    def _arrived(self, pane: RecordedPane) -> list[int]:
        """Processing times of what had arrived in its window."""
        return [
            its.processing_time
            for its in self.step.arrivals
            if its.processing_time <= pane.processing_time and _contains(pane, its.event_time, its.event_time + 1)
        ]


def _contains(pane: RecordedPane, start: int | None, end: int | None) -> bool:
    """Whether the pane's window has all of a span of event time."""
    if pane.start is None or pane.end is None:
        return True
    return start is not None and end is not None and pane.start <= start and end <= pane.end


def _replacement(taken_back: RecordedPane, results: Sequence[RecordedPane]) -> RecordedPane | None:
    """The pane that comes with a retraction and has its window, or the window that it became part of."""
    for pane in results:
        together = pane.processing_time == taken_back.processing_time
        if together and _contains(pane, taken_back.start, taken_back.end):
            return pane
    return None


def shown(value: Value) -> str:
    """A value as a picture says it.

    >>> shown(22), shown(0.1 + 0.2), shown("a long, long story")
    ('22', '0.3', 'a long, long …')
    """
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def minus(value: Value) -> str:
    """A value that is taken back.

    >>> minus(7), minus("[1, 2]")
    ('−7', '− [1, 2]')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"−{shown(value)}" if value >= 0 else f"−({shown(value)})"
    return f"− {shown(value)}"
