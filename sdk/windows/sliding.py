"""Where: sliding windows, which are overlapping intervals of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, DurationTypes, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow
from headrace.sdk.windows.fixed import IntervalsBySize
from headrace.sdk.windows.window_arithmetic import window_start
from headrace.sdk.windows.window_fn import AssignContext, NonMergingWindowFn, offset_within, positive


# No slots, so that attributes of subclasses are pickled too.
@named("SlidingWindows")
@dataclass(frozen=True, init=False)
class SlidingWindows(NonMergingWindowFn):
    """Each element is in all windows [n·period + offset, n·period + offset + size) that contain it; in seconds.

    With a period longer than the size, elements between two windows are in none.

    >>> SlidingWindows(60, 30).assign_all([70_000_000], [None])
    [([60.0, 120.0), [30.0, 90.0))]
    """

    size: Duration
    period: Duration
    offset: Duration
    _windows: IntervalsBySize = field(repr=False, compare=False)

    def __init__(self, size: DurationTypes, period: DurationTypes, offset: TimestampTypes | timedelta = 0) -> None:
        size = Duration(micros=positive("SlidingWindows: size", Duration.of(size).micros))
        period = Duration(micros=positive("SlidingWindows: period", Duration.of(period).micros))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "offset", offset_within(offset, period))
        object.__setattr__(self, "_windows", IntervalsBySize(size.micros))

    def starts(self, timestamp: int) -> range:
        """Starts of the windows that contain a timestamp, the latest first; all microseconds UTC."""
        latest = window_start(timestamp, self.period.micros, self.offset.micros)
        return range(latest, timestamp - self.size.micros, -self.period.micros)

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The windows that contain the element's timestamp, the latest first."""
        return [self._windows[start][0] for start in self.starts(context.timestamp.micros)]

    def assign_all(
        self,
        timestamps: Sequence[int],
        values: Sequence[object],
        windows: Sequence[BoundedWindow | None] | None = None,
    ) -> list[tuple[BoundedWindow, ...]]:
        """The windows that contain each timestamp (microseconds UTC), the latest first."""
        made, starts = self._windows, self.starts
        return [tuple([made[start][0] for start in starts(timestamp)]) for timestamp in timestamps]
