"""The lines of the watermarks in a plot: the actual watermark, and the ideal one."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sdk.recording.recording import Arrival, WatermarkStep
from headrace.sdk.visualization.plots.axis import Axis
from headrace.sdk.visualization.plots.downsampling import coarse_line

Point = tuple[float, float]


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
