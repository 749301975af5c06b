"""The shapes in a plot: lines of watermarks, boxes of panes, and marks of results, timers and open windows."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.recording.recording import Arrival, FiredTimer, Production, RecordedPane, StepRecording, WatermarkStep
from headrace.sdk.recording.state_snapshot import StateSnapshot
from headrace.sdk.visualization.plots.axis import Axis, brief_time
from headrace.sdk.visualization.plots.downsampling import MOST_BOXES, coarse_line, even_sample, visible_items
from headrace.sdk.visualization.plots.labels import (
    GAP,
    Labels,
    Rectangle,
    fitted_text,
    printable_text,
    retracted_label,
    value_label,
    width_of,
)
from headrace.sdk.visualization.plots.style import FLAG, VALUE

Point = tuple[float, float]
_FEW = 20
"""Number of panes up to which values wider than their boxes are written."""
_LEAST_HEIGHT = 23.0
"""Least height of a box whose value can be read."""
_POLE, _FLAG_HEIGHT = 11.0, 19.0
_BAR, _LANE = 20.0, 23.0
"""Height of a bar and of a lane, pixels."""
_SHORTEST = 9.0
"""Least width of a bar, pixels."""


def ideal_line(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Point, ...]:
    """The line of the ideal watermark: the least event time that is still to arrive.

    The line is never ahead of the clock, unless some element is.
    """
    ahead = any(arrival.event_time > arrival.processing_time for arrival in arrivals)
    newest = max((arrival.event_time for arrival in arrivals), default=0)
    moves = _oldest_to_come(arrivals, up.first)
    points: list[Point] = []
    for number, (time, oldest) in enumerate(moves):
        until = moves[number + 1][0] if number + 1 < len(moves) else up.last
        limit = (newest if ahead else up.last) if oldest is None else oldest
        for now in sorted({time, min(max(time, limit), until), until}):
            watermark = limit if ahead else min(now, limit)
            points.append((across.position(watermark), up.position(now)))
            if watermark >= across.last:
                return coarse_line(points)
    return coarse_line(points)


def _oldest_to_come(arrivals: Sequence[Arrival], first: int) -> list[tuple[int, int | None]]:
    """Processing times, each with the least event time that arrives afterwards; None after the last arrival.

    >>> _oldest_to_come([Arrival(3, 10, "a", 1), Arrival(1, 12, "a", 1), Arrival(8, 15, "a", 1)], 9)
    [(9, 1), (10, 1), (12, 8), (15, None)]
    """
    moves: list[tuple[int, int | None]] = []
    oldest: int | None = None
    for arrival in sorted(arrivals, key=lambda arrival: -arrival.processing_time):
        if not moves or moves[-1][0] != arrival.processing_time:
            moves.append((arrival.processing_time, oldest))
        oldest = arrival.event_time if oldest is None else min(oldest, arrival.event_time)
    return [(first, oldest), *moves[::-1]] if arrivals else []


def actual_line(steps: Sequence[WatermarkStep], across: Axis, up: Axis, last: int) -> tuple[Point, ...]:
    """The line of the actual watermark up to processing time `last`: up while it stands, across when it moves.

    The line enters from the left edge, as the watermark was far back before; its part right of the canvas is left out.
    """
    points: list[Point] = []
    for number, move in enumerate(steps):
        if move.watermark < across.first:
            continue
        if not points:
            points.append((across.at_first, up.position(move.processing_time)))
        until = steps[number + 1].processing_time if number + 1 < len(steps) else last
        x = across.position(move.watermark)
        points += [(x, up.position(move.processing_time)), (x, up.position(until))]
        if move.watermark >= across.last:
            return coarse_line(points[:-1])
    return coarse_line(points)


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


@dataclass(frozen=True, slots=True)
class Flag:
    """A production: a small square at its times, and above it a flag with the value if there is room."""

    x: float
    y: float
    """Position of the square, or the upper edge of an input at this position."""
    room: Rectangle | None
    """The area of the flag; None if there is no room."""
    text: str
    production: Production
    on_input: bool = False
    """Whether an input has the same position, so that a square would hide the input's value."""


@dataclass(frozen=True, slots=True)
class Bell:
    """A timer: at its timestamp for event time, at the left edge for wall time; hollow while it waits."""

    x: float
    y: float
    is_wall: bool
    fired_at: int | None
    """Processing time, microseconds UTC; None for a waiting timer."""
    tooltip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """An open window in a checkpoint, with the number of its keys."""

    room: Rectangle
    text: str
    tooltip: str


def flags(productions: Sequence[Production], across: Axis, up: Axis, occupied: list[Rectangle]) -> tuple[Flag, ...]:
    """The flags of productions; of very many, only of those that can be distinguished.

    A flag covers neither another flag nor a rectangle in `occupied`, to which the areas of the flags are added.
    """

    def position(production: Production) -> tuple[float, float]:
        return across.position(production.event_time), up.position(production.processing_time)

    inputs = list(occupied)
    placed: list[Flag] = []
    for production in visible_items(productions, position):
        x, y = position(production)
        below = next((area for area in inputs if area.left <= x <= area.right and area.top <= y <= area.bottom), None)
        if below is not None:
            y = below.top
        text = value_label(production.value)
        room = _room(x, y, text, across)
        free = room.top >= up.at_last and not any(room.overlap(other) for other in occupied)
        if free:
            occupied.append(room)
        placed.append(Flag(x, y, room if free else None, text, production, below is not None and free))
    return tuple(placed)


def _room(x: float, y: float, text: str, across: Axis) -> Rectangle:
    """The area of a flag above (x, y), within the canvas."""
    half = max(width_of(text, FLAG) / 2, 7.0) + 3
    middle = min(max(x, across.at_first + half), across.at_last - half)
    return Rectangle(middle - half, y - _POLE - _FLAG_HEIGHT, middle + half, y - _POLE)


def bells(timers: Sequence[FiredTimer], across: Axis, up: Axis) -> tuple[Bell, ...]:
    """The marks of timers that fired."""

    def position(timer: FiredTimer) -> tuple[float, float]:
        x = across.at_first if timer.is_wall else across.position(timer.timestamp)
        return x, up.position(timer.processing_time)

    return tuple(
        Bell(*position(timer), timer.is_wall, timer.processing_time, _tooltip(timer.tag, timer.timestamp, "fired"))
        for timer in visible_items(timers, position)
    )


def waiting_bells(snapshot: StateSnapshot, across: Axis, up: Axis) -> tuple[Bell, ...]:
    """The marks of waiting timers; those on event time are at the height of the last commit."""
    now = up.position(snapshot.clock)
    return tuple(
        Bell(
            across.at_first if timer.is_wall else across.position(timer.timestamp),
            up.position(timer.timestamp) if timer.is_wall else now,
            timer.is_wall,
            None,
            _tooltip(timer.tag, timer.timestamp, f"of key {timer.key} waits"),
        )
        for timer in even_sample(snapshot.timers, 200)
    )


def _tooltip(tag: str, timestamp: int, verb: str) -> str:
    name = f" {printable_text(tag)}" if tag else ""
    return f"timer{name} for {brief_time(timestamp)} {verb}"


def bars(snapshot: StateSnapshot, across: Axis, up: Axis) -> tuple[tuple[Bar, ...], int]:
    """The bars of open windows, in as few lanes as possible above the last commit; and the number of open windows.

    Of a window whose start is unknown, the last part is drawn.
    """
    counts = Counter((window.start, window.end) for window in set(snapshot.windows))
    sample_keys = {(window.start, window.end): window.key for window in snapshot.windows}
    top = up.position(snapshot.clock) - _LANE - 4
    ends: list[float] = []
    placed: list[Bar] = []
    for window in sorted(counts, key=_order):
        left = across.position(window[0], across.at_first if window[1] is None else across.position(window[1]) - 60)
        right = max(across.position(window[1], across.at_last), left + _SHORTEST)
        lane = next((n for n, end in enumerate(ends) if end + 2 <= left), len(ends))
        y = top - lane * _LANE
        if y < up.at_last:
            continue
        ends[lane:] = [right, *ends[lane + 1 :]]
        keys = f"{counts[window]:,} keys" if counts[window] > 1 else printable_text(sample_keys[window])
        room = Rectangle(left, y, right, y + _BAR)
        ellipsis = "… " if window[0] is None and window[1] is not None else ""
        text = _fitting_text(ellipsis + keys, right - left)
        placed.append(Bar(room, text, f"{_window_name(*window)} is open: {keys}"))
    return tuple(placed), len(counts)


def _fitting_text(text: str, width: float) -> str:
    short = fitted_text(text, width - 4, FLAG)
    return "" if short == "…" else short


def _order(window: tuple[int | None, int | None]) -> tuple[int, int]:
    start, end = window
    return (end is None, end or 0) if start is None else (0, start)


def _window_name(start: int | None, end: int | None) -> str:
    if end is None:
        return "the window of all time"
    if start is None:
        return f"the window that ends at {brief_time(end)}"
    return f"[{brief_time(start)}, {brief_time(end)})"
