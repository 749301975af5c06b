"""The watermarks of a picture: the actual one, and the ideal one, which knows all that is to come."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sdk.pictures.axis import Axis
from headrace.sdk.pictures.thinning import coarser
from headrace.sdk.recording import Arrival, WatermarkStep

Point = tuple[float, float]


def ideal(arrivals: Sequence[Arrival], across: Axis, up: Axis) -> tuple[Point, ...]:
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
                return coarser(points)
    return coarser(points)


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


def actual(steps: Sequence[WatermarkStep], across: Axis, up: Axis, last: int) -> tuple[Point, ...]:
    """Up while it stands, to the last instant known, then across to where it moves; nothing of it out of sight.

    It comes from the left edge when it is first in sight, because it was far back before.
    """
    points: list[Point] = []
    for number, move in enumerate(steps):
        if move.watermark < across.first:
            continue
        if not points:
            points.append((across.at_first, up.place(move.processing_time)))
        until = steps[number + 1].processing_time if number + 1 < len(steps) else last
        x = across.place(move.watermark)
        points += [(x, up.place(move.processing_time)), (x, up.place(until))]
        if move.watermark >= across.last:
            return coarser(points[:-1])
    return coarser(points)
