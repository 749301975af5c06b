"""Marks in a plot besides dots and panes: productions as flags, timers as triangles, open windows as bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.recording.recording import FiredTimer, Production
from headrace.sdk.recording.state_snapshot import StateSnapshot
from headrace.sdk.visualization.plots.axis import Axis, brief_time
from headrace.sdk.visualization.plots.downsampling import even_sample, visible_items
from headrace.sdk.visualization.plots.labels import Rectangle, fitted_text, printable_text, value_label, width_of
from headrace.sdk.visualization.plots.style import FLAG

_POLE, _FLAG_HEIGHT = 11.0, 19.0
_BAR, _LANE = 20.0, 23.0
"""Height of a bar and of a lane, pixels."""
_SHORTEST = 9.0
"""Least width of a bar, pixels."""


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
