"""Where: fixed windows, which are adjacent intervals of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, DurationTypes, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow, IntervalWindow
from headrace.sdk.windows.window_arithmetic import window_start_list
from headrace.sdk.windows.window_fn import AssignContext, NonMergingWindowFn, offset_within, positive

_REMEMBERED = 20_000
"""Number of cached windows; a look-up is much faster than creating a window."""


class IntervalsBySize(dict[int, tuple[IntervalWindow]]):
    """Cache of windows of one length: start in microseconds UTC -> tuple of the window; creates missing windows."""

    def __init__(self, size_us: int) -> None:
        super().__init__()
        self._size_us = size_us

    def __missing__(self, start_us: int) -> tuple[IntervalWindow]:
        if len(self) >= _REMEMBERED:
            self.clear()
        window = (IntervalWindow.of_micros(start_us, start_us + self._size_us),)
        self[start_us] = window
        return window

    def __reduce__(self) -> tuple[object, ...]:
        return IntervalsBySize, (self._size_us,)


# No slots, so that attributes of subclasses are pickled too.
@named("FixedWindows")
@dataclass(frozen=True, init=False)
class FixedWindows(NonMergingWindowFn):
    """Each element is in the window [n·size + offset, (n + 1)·size + offset) that contains its timestamp; in seconds.

    >>> FixedWindows(60, offset=15).assign_all([70_000_000], [None])
    [([15.0, 75.0),)]
    """

    size: Duration
    offset: Duration
    _windows: IntervalsBySize = field(repr=False, compare=False)

    def __init__(self, size: DurationTypes, offset: TimestampTypes | timedelta = 0) -> None:
        size = Duration(micros=positive("FixedWindows: size", Duration.of(size).micros))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "offset", offset_within(offset, size))
        object.__setattr__(self, "_windows", IntervalsBySize(size.micros))

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The window that contains the element's timestamp."""
        return list(self.assign_all([context.timestamp.micros], [None])[0])

    def assign_all(
        self,
        timestamps: Sequence[int],
        values: Sequence[object],
        windows: Sequence[BoundedWindow | None] | None = None,
    ) -> list[tuple[BoundedWindow, ...]]:
        """The window of each timestamp (microseconds UTC); elements of one window share the object."""
        starts = window_start_list(timestamps, self.size.micros, self.offset.micros)
        return list(map(self._windows.__getitem__, starts))
