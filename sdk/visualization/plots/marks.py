"""What else a picture may have: productions as flags, timers as triangles, and what waits in a checkpoint as bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sdk.pictures.axis import Axis, briefly
from headrace.sdk.pictures.placing import Rectangle, width_of
from headrace.sdk.pictures.style import FLAG
from headrace.sdk.pictures.thinning import apart, evenly
from headrace.sdk.pictures.words import fitted, printable, shown
from headrace.sdk.recording import FiredTimer, Production
from headrace.sdk.standing import Standing

_POLE, _FLAG_HEIGHT = 11.0, 19.0
_BAR, _LANE = 20.0, 23.0
_SHORTEST = 9.0
"""Of a bar, and of the gap between two in a lane; pixels."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A production: a small square where it is, and above it its value on a flag, where there is room."""

    x: float
    y: float
    """Where it is; or the upper edge of the input that is there."""
    room: Rectangle | None
    text: str
    production: Production
    on_input: bool = False
    """Whether an input is where it is, so that a square would hide that one's value."""


@dataclass(frozen=True, slots=True)
class Bell:
    """A timer: one on event time where it was set to, one on the wall clock at the left edge; hollow if it waits."""

    x: float
    y: float
    is_wall: bool
    fired_at: int | None
    """Processing time; None for one that waits."""
    told: str


@dataclass(frozen=True, slots=True)
class Bar:
    """An open window of a checkpoint, with how many keys hold something in it."""

    room: Rectangle
    text: str
    told: str


def flags(productions: Sequence[Production], across: Axis, up: Axis, taken: list[Rectangle]) -> tuple[Flag, ...]:
    """Of all, or of those that can be told apart; flags cover neither each other nor what is in `taken`."""

    def place(its: Production) -> tuple[float, float]:
        return across.place(its.event_time), up.place(its.processing_time)

    inputs = list(taken)
    made: list[Flag] = []
    for its in apart(productions, place):
        x, y = place(its)
        below = next((one for one in inputs if one.left <= x <= one.right and one.top <= y <= one.bottom), None)
        if below is not None:
            y = below.top
        text = shown(its.value)
        room = _room(x, y, text, across)
        free = room.top >= up.at_last and not any(room.overlap(other) for other in taken)
        if free:
            taken.append(room)
        made.append(Flag(x, y, room if free else None, text, its, below is not None and free))
    return tuple(made)


def _room(x: float, y: float, text: str, across: Axis) -> Rectangle:
    """That of a flag, within the canvas."""
    half = max(width_of(text, FLAG) / 2, 7.0) + 3
    middle = min(max(x, across.at_first + half), across.at_last - half)
    return Rectangle(middle - half, y - _POLE - _FLAG_HEIGHT, middle + half, y - _POLE)


def bells(timers: Sequence[FiredTimer], across: Axis, up: Axis) -> tuple[Bell, ...]:
    """Timers that fired."""

    def place(its: FiredTimer) -> tuple[float, float]:
        return across.at_first if its.is_wall else across.place(its.timestamp), up.place(its.processing_time)

    return tuple(
        Bell(*place(its), its.is_wall, its.processing_time, _told_of(its.tag, its.timestamp, "fired"))
        for its in apart(timers, place)
    )


def waiting(standing: Standing, across: Axis, up: Axis) -> tuple[Bell, ...]:
    """Timers that wait, those on event time at the instant of the last commit."""
    now = up.place(standing.clock)
    return tuple(
        Bell(
            across.at_first if its.is_wall else across.place(its.timestamp),
            up.place(its.timestamp) if its.is_wall else now,
            its.is_wall,
            None,
            _told_of(its.tag, its.timestamp, f"of key {its.key} waits"),
        )
        for its in evenly(standing.timers, 200)
    )


def _told_of(tag: str, timestamp: int, does: str) -> str:
    name = f" {printable(tag)}" if tag else ""
    return f"timer{name} for {briefly(timestamp)} {does}"


def bars(standing: Standing, across: Axis, up: Axis) -> tuple[tuple[Bar, ...], int]:
    """Open windows in as few lanes as can be, above the last commit; and how many there are, drawn or not.

    Of one that says its end only, the last part is drawn.
    """
    counts = Counter((its.start, its.end) for its in set(standing.windows))
    one = {(its.start, its.end): its.key for its in standing.windows}
    top = up.place(standing.clock) - _LANE - 4
    ends: list[float] = []
    made: list[Bar] = []
    for window in sorted(counts, key=_order):
        left = across.place(window[0], across.at_first if window[1] is None else across.place(window[1]) - 60)
        right = max(across.place(window[1], across.at_last), left + _SHORTEST)
        lane = next((n for n, end in enumerate(ends) if end + 2 <= left), len(ends))
        y = top - lane * _LANE
        if y < up.at_last:
            continue
        ends[lane:] = [right, *ends[lane + 1 :]]
        keys = f"{counts[window]:,} keys" if counts[window] > 1 else printable(one[window])
        room = Rectangle(left, y, right, y + _BAR)
        since_when = "… " if window[0] is None and window[1] is not None else ""
        made.append(Bar(room, _fitting(since_when + keys, right - left), f"{_named(*window)} is open: {keys}"))
    return tuple(made), len(counts)


def _fitting(text: str, width: float) -> str:
    short = fitted(text, width - 4, FLAG)
    return short if len(short) > 1 else ""


def _order(window: tuple[int | None, int | None]) -> tuple[int, int]:
    start, end = window
    return (end is None, end or 0) if start is None else (0, start)


def _named(start: int | None, end: int | None) -> str:
    if end is None:
        return "the window of all time"
    return f"the window that ends at {briefly(end)}" if start is None else f"[{briefly(start)}, {briefly(end)})"
