"""Where: the things in a picture of one step, on a canvas (x to the right, y down, one unit a pixel)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot

from headrace.sdk.pictures import lines, marks, thinning
from headrace.sdk.pictures.axis import Axis
from headrace.sdk.pictures.boxes import Box, Boxes
from headrace.sdk.pictures.lines import Point
from headrace.sdk.pictures.marks import Bar, Bell, Flag
from headrace.sdk.pictures.placing import Labels, Rectangle
from headrace.sdk.pictures.thinning import apart
from headrace.sdk.pictures.words import minus, shown
from headrace.sdk.recording import Arrival, RecordingError, StepRecording

__all__ = ["Box", "Dot", "Point", "Scene", "Spans", "of_key", "scene"]

_RADIUS, _SMALL_RADIUS, _TINY_RADIUS = 10.0, 4.0, 2.0
_CROWD, _FEW, _MANY = 30, 80, 300
"""Arrivals: beyond the first number none may cover another, up to the second they have their values, and beyond the
third they are points."""
_GAP = 3.0
"""Between two circles with values in a crowd, pixels."""
_AROUND = 30_000_000
"""Before and after, where everything is at one time; microseconds."""
_FAR = 250_000_000_000_000_000
"""Microseconds from 1970 that no calendar has; what is beyond, such as elements without a time, is at the edge."""


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
class Scene:
    """Everything in the picture of one step and key."""

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
    flags: tuple[Flag, ...] = ()
    bells: tuple[Bell, ...] = ()
    bars: tuple[Bar, ...] = ()
    now: float | None = None
    """Height of the last commit, in a picture of what a checkpoint knows."""
    inputs: tuple[Arrival, ...] = ()
    """Arrivals, also those that have no dot; of very many those that have one."""
    restarts: tuple[tuple[float, int], ...] = ()
    """Heights, and times, at which another driver began."""
    remarks: tuple[str, ...] = ()
    """What is not drawn, or not where it is."""


@dataclass(frozen=True, slots=True)
class Spans:
    """The times that a picture, or several side by side, show; microseconds."""

    event_time: tuple[int, int]
    processing_time: tuple[int, int]

    @classmethod
    def of(cls, steps: Sequence[StepRecording]) -> Spans:
        """Room for everything. Raises `RecordingError` if there is nothing."""
        seen = [time for step in steps for time in _processing_times(step)]
        if not seen:
            raise RecordingError(
                "the recording has no arrivals and no panes, so there is nothing to draw; "
                "record a run in which elements reach the grouping"
            )
        events = [time for step in steps for time in _event_times(step) if abs(time) < _FAR]
        # The flags of results stand above their instant.
        above = 0.1 if any(step.productions for step in steps) else 0.05
        return cls(_padded(events, 0.035, 0.035), _padded(seen, 0.07, above))


def _event_times(step: StepRecording) -> Iterable[int]:
    yield from (its.event_time for its in step.arrivals)
    yield from (its.event_time for its in step.productions)
    yield from (end for pane in step.panes for end in (pane.start, pane.end) if end is not None)
    yield from (its.timestamp for its in step.timers if not its.is_wall)
    if (standing := step.standing) is not None:
        yield from (end for window in standing.windows for end in (window.start, window.end) if end is not None)
        yield from (its.timestamp for its in standing.timers if not its.is_wall)
        yield from (its.watermark for its in step.watermarks)


def _processing_times(step: StepRecording) -> Iterable[int]:
    for things in (step.arrivals, step.panes, step.productions, step.timers):
        yield from (its.processing_time for its in things)
    yield from step.restarts
    if (standing := step.standing) is not None:
        times = [standing.clock, *(its.processing_time for its in step.watermarks)]
        first, last = min(times), max(times)
        # Above the last commit there is room for what is to come.
        yield from (first, last + max(last - first, _AROUND))
        yield from (its.timestamp for its in standing.timers if its.is_wall and its.timestamp - last < 10 * _AROUND)


def _padded(times: Sequence[int], before: float, after: float) -> tuple[int, int]:
    first, last = min(times, default=0), max(times, default=0)
    if first == last:
        return first - _AROUND, last + _AROUND
    return first - max(1, round((last - first) * before)), last + max(1, round((last - first) * after))


def of_key(step: StepRecording, key: str | None) -> StepRecording:
    """What was seen of one key: the one named, or else the one with most arrivals. Raises `RecordingError`.

    What a checkpoint knows is for all keys, unless one is named.
    """
    keys = step.keys()
    if key is None:
        if step.standing is not None:
            return step
        key = keys[0] if keys else ""
    elif key not in keys:
        known = ", ".join(map(repr, keys[:10])) + (", …" if len(keys) > 10 else "")
        raise RecordingError(f"step {step.label!r} has seen no key {key!r}; it has seen {known or 'none'}")
    chosen = replace(
        step,
        arrivals=tuple(its for its in step.arrivals if its.key == key),
        panes=tuple(its for its in step.panes if its.key == key),
        productions=tuple(its for its in step.productions if its.key in (key, "")),
        timers=tuple(its for its in step.timers if its.key == key),
    )
    if (standing := step.standing) is None:
        return chosen
    windows = tuple(its for its in standing.windows if its.key == key)
    timers = tuple(its for its in standing.timers if its.key == key)
    return replace(chosen, standing=replace(standing, windows=windows, timers=timers))


def scene(step: StepRecording, spans: Spans, width: float, height: float) -> Scene:
    """Lay out what was seen (of one key) of a step."""
    across = Axis(*spans.event_time, 0.0, width)
    up = Axis(*spans.processing_time, height, 0.0)
    until = up.last if step.standing is None else step.standing.clock
    actual = lines.actual(step.watermarks, across, up, until)
    ideal = lines.ideal(step.arrivals, across, up)
    dots = _dots(step.arrivals, across, up)
    squares = [_square(dot) for dot in dots]
    flags = marks.flags(step.productions, across, up, list(squares))
    bells = marks.bells(step.timers, across, up)
    labels = Labels(squares, _segments(actual) + _segments(ideal))
    boxes = Boxes(step, across, up, labels)
    drawn = boxes.all()
    remarks = [
        *_inputs(dots, len(step.arrivals)),
        *thinning.remark(len(drawn), boxes.number, "panes"),
        *thinning.remark(sum(box.label is not None for box in drawn), len(drawn), "panes' values"),
        *thinning.remark(len(flags), len(step.productions), "results"),
        *thinning.remark(len(bells), len(step.timers), "timers"),
        *_beyond(step.arrivals),
    ]
    restarts = tuple((up.place(time), time) for time in step.restarts)
    made = Scene(
        *(width, height, across, up, dots, drawn, actual, ideal, flags, bells),
        inputs=step.arrivals if len(step.arrivals) <= thinning.MOST_DOTS else tuple(dot.arrival for dot in dots),
        restarts=restarts,
        remarks=tuple(remarks),
    )
    return made if step.standing is None else _with_standing(made, step)


def _with_standing(made: Scene, step: StepRecording) -> Scene:
    assert step.standing is not None, "that is what is drawn"
    bars, windows = marks.bars(step.standing, made.event_time, made.processing_time)
    bells = marks.waiting(step.standing, made.event_time, made.processing_time)
    remarks = [
        *thinning.remark(len(bars), windows, "open windows"),
        *thinning.remark(len(bells), len(step.standing.timers), "waiting timers"),
    ]
    now = made.processing_time.place(step.standing.clock)
    return replace(made, bars=bars, bells=bells, now=now, remarks=(*made.remarks, *remarks))


def _beyond(arrivals: Sequence[Arrival]) -> list[str]:
    far = sum(abs(its.event_time) >= _FAR for its in arrivals)
    inputs = "1 input" if far == 1 else f"{far:,} inputs"
    return [f"{inputs} without a time of their own, or beyond all calendars, at the edge"] if far else []


def _segments(points: Sequence[Point]) -> list[Rectangle]:
    return [
        Rectangle(min(x0, x1) - 2, min(y0, y1) - 2, max(x0, x1) + 2, max(y0, y1) + 2)
        for (x0, y0), (x1, y1) in pairwise(points)
    ]


# Arrivals


def _dots(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Dot, ...]:
    def place(its: Arrival) -> Point:
        return across.place(its.event_time), up.place(its.processing_time)

    drawn = apart(arrivals, place)
    is_crowd, few = len(drawn) > _CROWD, len(drawn) <= _FEW
    small = _SMALL_RADIUS if len(drawn) <= _MANY else _TINY_RADIUS
    named: list[Dot] = []
    others: list[Dot] = []
    for arrival in drawn:
        x, y = place(arrival)
        text = minus(arrival.value) if arrival.is_retraction else shown(arrival.value)
        if few and len(text) <= 3 and all(_are_apart(x, y, other, is_crowd) for other in named):
            named.append(Dot(x, y, _RADIUS, text, arrival))
        else:
            others.append(Dot(x, y, small, "", arrival))
    if is_crowd and len(arrivals) <= thinning.MOST_DOTS:
        others = list(_seen_beside(named, others))
    return tuple(sorted([*named, *others], key=lambda dot: dot.arrival.processing_time))


def _are_apart(x: float, y: float, other: Dot, is_crowd: bool) -> bool:
    """Whether a circle there would leave another one to be read; in a crowd, whether it would not touch it."""
    if is_crowd:
        return hypot(x - other.x, y - other.y) >= 2 * _RADIUS + _GAP
    return abs(x - other.x) + abs(y - other.y) > _RADIUS


def _seen_beside(named: Sequence[Dot], others: Iterable[Dot]) -> Iterator[Dot]:
    """Of dots without values those that no circle hides, and that do not run together to a bar."""
    taken: set[tuple[int, int]] = set()
    for dot in others:
        if any(hypot(dot.x - circle.x, dot.y - circle.y) < circle.radius + dot.radius for circle in named):
            continue
        size = 2 * dot.radius + 1
        column, row = int(dot.x // size), int(dot.y // size)
        if taken.isdisjoint((column + right, row + down) for right in (-1, 0, 1) for down in (-1, 0, 1)):
            taken.add((column, row))
            yield dot


def _inputs(dots: Sequence[Dot], there: int) -> list[str]:
    """How many there are, where not each can be seen, or not each has its value."""
    named = sum(bool(dot.text) for dot in dots)
    if there > _CROWD and 0 < named < there:
        return [f"{there:,} inputs, {named:,} of them with their values"]
    return thinning.remark(len(dots), there, "inputs") or ([f"{there:,} inputs"] if there > _CROWD else [])


def _square(dot: Dot) -> Rectangle:
    around = dot.radius + 1
    return Rectangle(dot.x - around, dot.y - around, dot.x + around, dot.y + around)
