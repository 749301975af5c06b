"""The scene of one step: everything in its plot, placed on a canvas (x to the right, y down, in pixels)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot

from headrace.sdk.model.short_text import count_text
from headrace.sdk.recording.recording import Arrival, RecordingError, StepRecording
from headrace.sdk.visualization.plots import downsampling, shapes
from headrace.sdk.visualization.plots.axis import Axis
from headrace.sdk.visualization.plots.downsampling import visible_items
from headrace.sdk.visualization.plots.labels import Labels, Rectangle, item_label
from headrace.sdk.visualization.plots.shapes import Bar, Bell, Boxes, Flag, PaneBox, Point

_RADIUS, _SMALL_RADIUS, _TINY_RADIUS = 10.0, 4.0, 2.0
_CROWD, _FEW, _MANY = 30, 80, 300
"""Numbers of arrivals: above the first, dots must not overlap; up to the second, dots have values; above the third,
dots are tiny."""
_GAP = 3.0
"""Gap between two dots with values where there are many, pixels."""
_AROUND = 30_000_000
"""Span of the axis before and after a single instant, microseconds."""
_FAR = 250_000_000_000_000_000
"""Microseconds from 1970 outside any calendar; elements beyond, such as those without a timestamp, are at the edge."""


@dataclass(frozen=True, slots=True)
class Dot:
    """The dot of an arrival."""

    x: float
    y: float
    radius: float
    text: str
    """The value; empty if there is no room for it."""
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything in the plot of one step and key."""

    width: float
    height: float
    event_time: Axis
    processing_time: Axis
    dots: tuple[Dot, ...]
    boxes: tuple[PaneBox, ...]
    actual: tuple[Point, ...]
    """The line of the watermark."""
    ideal: tuple[Point, ...]
    """The line of the ideal watermark, which knows all later arrivals."""
    flags: tuple[Flag, ...] = ()
    bells: tuple[Bell, ...] = ()
    bars: tuple[Bar, ...] = ()
    now: float | None = None
    """Height of the last commit in a plot of a checkpoint's state; None in other plots."""
    inputs: tuple[Arrival, ...] = ()
    """All arrivals; if there are more than `MOST_DOTS`, those that have a dot."""
    restarts: tuple[tuple[float, int], ...] = ()
    """Height and processing time at which each later driver began."""
    remarks: tuple[str, ...] = ()
    """Sentences about items that are not drawn, or not at their position."""


@dataclass(frozen=True, slots=True)
class Spans:
    """First and last times on the axes that the panels of a plot share, microseconds UTC."""

    event_time: tuple[int, int]
    processing_time: tuple[int, int]

    @classmethod
    def of(cls, steps: Sequence[StepRecording]) -> Spans:
        """The spans that contain everything. Raises `RecordingError` if nothing was recorded."""
        times = [time for step in steps for time in _processing_times(step)]
        if not times:
            raise RecordingError(
                "the recording has no arrivals and no panes, so there is nothing to draw; "
                "record a run in which elements reach the grouping"
            )
        events = [time for step in steps for time in _event_times(step) if abs(time) < _FAR]
        # The flags of results are above their instant.
        above = 0.1 if any(step.productions for step in steps) else 0.05
        return cls(_padded_span(events, 0.035, 0.035), _padded_span(times, 0.07, above))


def _event_times(step: StepRecording) -> Iterable[int]:
    yield from (item.event_time for item in step.arrivals)
    yield from (item.event_time for item in step.productions)
    yield from (end for pane in step.panes for end in (pane.start, pane.end) if end is not None)
    yield from (timer.timestamp for timer in step.timers if not timer.is_wall)
    if (snapshot := step.standing) is not None:
        yield from (end for window in snapshot.windows for end in (window.start, window.end) if end is not None)
        yield from (timer.timestamp for timer in snapshot.timers if not timer.is_wall)
        yield from (move.watermark for move in step.watermarks)


def _processing_times(step: StepRecording) -> Iterable[int]:
    for items in (step.arrivals, step.panes, step.productions, step.timers):
        yield from (item.processing_time for item in items)
    yield from step.restarts
    if (snapshot := step.standing) is not None:
        times = [snapshot.clock, *(move.processing_time for move in step.watermarks)]
        first, last = min(times), max(times)
        # Open windows and waiting timers are above the last commit.
        yield from (first, last + max(last - first, _AROUND))
        walls = (timer.timestamp for timer in snapshot.timers if timer.is_wall)
        yield from (time for time in walls if time - last < 10 * _AROUND)


def _padded_span(times: Sequence[int], before: float, after: float) -> tuple[int, int]:
    first, last = min(times, default=0), max(times, default=0)
    if first == last:
        return first - _AROUND, last + _AROUND
    return first - max(1, round((last - first) * before)), last + max(1, round((last - first) * after))


def recording_of_key(step: StepRecording, key: str | None) -> StepRecording:
    """The part of a recording for one key: the key given, or the key with most arrivals.

    The state of a checkpoint stays for all keys unless a key is given. Raises `RecordingError` for an unknown key.
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
        arrivals=tuple(arrival for arrival in step.arrivals if arrival.key == key),
        panes=tuple(pane for pane in step.panes if pane.key == key),
        productions=tuple(production for production in step.productions if production.key in (key, "")),
        timers=tuple(timer for timer in step.timers if timer.key == key),
    )
    if (snapshot := step.standing) is None:
        return chosen
    windows = tuple(window for window in snapshot.windows if window.key == key)
    timers = tuple(timer for timer in snapshot.timers if timer.key == key)
    return replace(chosen, standing=replace(snapshot, windows=windows, timers=timers))


def scene(step: StepRecording, spans: Spans, width: float, height: float) -> Scene:
    """Lay out a recording (of one key) on a canvas of a width and height in pixels."""
    across = Axis(*spans.event_time, 0.0, width)
    up = Axis(*spans.processing_time, height, 0.0)
    until = up.last if step.standing is None else step.standing.clock
    actual = shapes.actual_line(step.watermarks, across, up, until)
    ideal = shapes.ideal_line(step.arrivals, across, up)
    dots = _dots(step.arrivals, across, up)
    squares = [_square(dot) for dot in dots]
    flags = shapes.flags(step.productions, across, up, list(squares))
    bells = shapes.bells(step.timers, across, up)
    labels = Labels(squares, _segments(actual) + _segments(ideal))
    boxes = Boxes(step, across, up, labels)
    drawn = boxes.drawn_boxes()
    remarks = [
        *_inputs(dots, len(step.arrivals)),
        *downsampling.remark(len(drawn), boxes.number, "panes"),
        *downsampling.remark(sum(box.label is not None for box in drawn), len(drawn), "panes' values"),
        *downsampling.remark(len(flags), len(step.productions), "results"),
        *downsampling.remark(len(bells), len(step.timers), "timers"),
        *_remark_on_far_inputs(step.arrivals),
    ]
    restarts = tuple((up.position(time), time) for time in step.restarts)
    layout = Scene(
        *(width, height, across, up, dots, drawn, actual, ideal, flags, bells),
        inputs=step.arrivals if len(step.arrivals) <= downsampling.MOST_DOTS else tuple(dot.arrival for dot in dots),
        restarts=restarts,
        remarks=tuple(remarks),
    )
    return layout if step.standing is None else _with_standing(layout, step)


def _with_standing(layout: Scene, step: StepRecording) -> Scene:
    assert step.standing is not None, "scene() checks that there is a snapshot"
    bars, windows = shapes.bars(step.standing, layout.event_time, layout.processing_time)
    bells = shapes.waiting_bells(step.standing, layout.event_time, layout.processing_time)
    remarks = [
        *downsampling.remark(len(bars), windows, "open windows"),
        *downsampling.remark(len(bells), len(step.standing.timers), "waiting timers"),
    ]
    now = layout.processing_time.position(step.standing.clock)
    return replace(layout, bars=bars, bells=bells, now=now, remarks=(*layout.remarks, *remarks))


def _remark_on_far_inputs(arrivals: Sequence[Arrival]) -> list[str]:
    far = sum(abs(arrival.event_time) >= _FAR for arrival in arrivals)
    return [f"{count_text(far, 'input')} without timestamp, or outside the calendar, at the edge"] if far else []


def _segments(points: Sequence[Point]) -> list[Rectangle]:
    return [
        Rectangle(min(x0, x1) - 2, min(y0, y1) - 2, max(x0, x1) + 2, max(y0, y1) + 2)
        for (x0, y0), (x1, y1) in pairwise(points)
    ]


# Arrivals


def _dots(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Dot, ...]:
    def position(arrival: Arrival) -> Point:
        return across.position(arrival.event_time), up.position(arrival.processing_time)

    drawn = visible_items(arrivals, position)
    is_crowd, few = len(drawn) > _CROWD, len(drawn) <= _FEW
    small = _SMALL_RADIUS if len(drawn) <= _MANY else _TINY_RADIUS
    named: list[Dot] = []
    others: list[Dot] = []
    for arrival in drawn:
        x, y = position(arrival)
        text = item_label(arrival)
        if few and len(text) <= 3 and all(_are_distinguishable(x, y, other, is_crowd) for other in named):
            named.append(Dot(x, y, _RADIUS, text, arrival))
        else:
            others.append(Dot(x, y, small, "", arrival))
    if is_crowd and len(arrivals) <= downsampling.MOST_DOTS:
        others = list(_visible_dots(named, others))
    return tuple(sorted([*named, *others], key=lambda dot: dot.arrival.processing_time))


def _are_distinguishable(x: float, y: float, other: Dot, is_crowd: bool) -> bool:
    """Whether a dot at (x, y) would leave another dot's value readable; in a crowd, whether it would not touch it."""
    if is_crowd:
        return hypot(x - other.x, y - other.y) >= 2 * _RADIUS + _GAP
    return abs(x - other.x) + abs(y - other.y) > _RADIUS


def _visible_dots(named: Sequence[Dot], others: Iterable[Dot]) -> Iterator[Dot]:
    """The dots without values that no dot with a value hides, and that do not run together."""
    occupied: set[tuple[int, int]] = set()
    for dot in others:
        if any(hypot(dot.x - circle.x, dot.y - circle.y) < circle.radius + dot.radius for circle in named):
            continue
        size = 2 * dot.radius + 1
        column, row = int(dot.x // size), int(dot.y // size)
        if occupied.isdisjoint((column + right, row + down) for right in (-1, 0, 1) for down in (-1, 0, 1)):
            occupied.add((column, row))
            yield dot


def _inputs(dots: Sequence[Dot], total: int) -> list[str]:
    """The remark with the number of inputs if some have no dot or no value."""
    named = sum(bool(dot.text) for dot in dots)
    if total > _CROWD and 0 < named < total:
        return [f"{total:,} inputs, {named:,} of them with their values"]
    return downsampling.remark(len(dots), total, "inputs") or ([f"{total:,} inputs"] if total > _CROWD else [])


def _square(dot: Dot) -> Rectangle:
    around = dot.radius + 1
    return Rectangle(dot.x - around, dot.y - around, dot.x + around, dot.y + around)
