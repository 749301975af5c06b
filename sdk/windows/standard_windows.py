"""Where: the standard window functions: global, fixed and sliding windows, and sessions (Streaming 102, figure 3).

All times are integer microseconds. Fixed and sliding windows begin at the starts of periods: period number n is the
half-open interval [n·period + offset, (n + 1)·period + offset), also for negative n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, DurationTypes, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow, GlobalWindow, GlobalWindowCoder, IntervalWindow
from headrace.sdk.windows.window_fn import (
    AssignContext,
    AssignedWindows,
    MergeContext,
    NonMergingWindowFn,
    WindowFn,
    WindowsBefore,
    offset_within,
    positive,
)

INT64_LIMIT = 1 << 62
"""Sums and differences of two numbers below this limit fit into 64 bits."""


def window_start(timestamp: int, period: int, offset: int) -> int:
    """The start of the period that a timestamp is in; exact for integers of any size.

    >>> window_start(12, 10, 0), window_start(-1, 10, 0), window_start(12, 10, 5)
    (10, -10, 5)
    """
    return timestamp - (timestamp - offset) % period


def window_start_list(timestamps: Sequence[int], period: int, offset: int) -> list[int]:
    """`window_start` of each timestamp, without the cost of a call for each.

    >>> window_start_list([12, -1], 10, 0)
    [10, -10]
    """
    return [timestamp - (timestamp - offset) % period for timestamp in timestamps]


def window_start_array(timestamps: NDArray[np.int64], period: int, offset: int) -> NDArray[np.int64]:
    """`window_start` of each timestamp of an array for which `fits_int64` holds; `offset` is from 0 up to the period.

    >>> window_start_array(np.array([12, -1]), 10, 0).tolist()
    [10, -10]
    """
    return timestamps - (timestamps - offset) % period


def fits_int64(timestamps: NDArray[np.int64], period: int = 0) -> bool:
    """Whether starts and ends of windows of these timestamps (at least one) can be computed in 64 bits.

    >>> fits_int64(np.array([12, -1]), 10), fits_int64(np.array([-INT64_LIMIT]), 10), fits_int64(np.array([0]), 1 << 62)
    (True, False, False)
    """
    return period < INT64_LIMIT and -INT64_LIMIT < int(timestamps.min()) <= int(timestamps.max()) < INT64_LIMIT


_ONLY: tuple[BoundedWindow, ...] = (GlobalWindow(),)
"""The windows of every element. They are one tuple, as steps know windows that they have seen by its identity."""


@named("GlobalWindows")
@dataclass(frozen=True, slots=True)
class GlobalWindows(NonMergingWindowFn):
    """Every element is in the global window.

    >>> GlobalWindows().assign_all([1, 2], ["a", "b"])
    [(GlobalWindow,), (GlobalWindow,)]
    """

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The global window."""
        return [GlobalWindow()]

    def assign_all(
        self, timestamps: Sequence[int], values: Sequence[object], windows: WindowsBefore = None
    ) -> AssignedWindows:
        """The global window, once for each element."""
        return [_ONLY] * len(values)

    def get_window_coder(self) -> Coder:
        """The coder that encodes the global window as no bytes."""
        return GlobalWindowCoder()


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
        self, timestamps: Sequence[int], values: Sequence[object], windows: WindowsBefore = None
    ) -> AssignedWindows:
        """The window of each timestamp (microseconds UTC); elements of one window share the object."""
        starts = window_start_list(timestamps, self.size.micros, self.offset.micros)
        return list(map(self._windows.__getitem__, starts))


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
        self, timestamps: Sequence[int], values: Sequence[object], windows: WindowsBefore = None
    ) -> AssignedWindows:
        """The windows that contain each timestamp (microseconds UTC), the latest first."""
        made, starts = self._windows, self.starts
        return [tuple([made[start][0] for start in starts(timestamp)]) for timestamp in timestamps]


# No slots, so that attributes of subclasses are pickled too.
@named("Sessions")
@dataclass(frozen=True, init=False)
class Sessions(WindowFn):
    """Elements of a key less than `gap_size` seconds apart share a window, in whatever order they arrive.

    Each element begins as a window of its own, from its timestamp to a gap after it; overlapping windows merge.

    >>> Sessions(10).assign_all([5_000_000], [None])
    [([5.0, 15.0),)]
    """

    gap_size: Duration

    def __init__(self, gap_size: DurationTypes) -> None:
        gap = positive("Sessions: gap_size", Duration.of(gap_size).micros)
        object.__setattr__(self, "gap_size", Duration(micros=gap))

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The window of one element, from its timestamp to a gap later, before it is merged with others."""
        start = context.timestamp.micros
        return [IntervalWindow.of_micros(start, start + self.gap_size.micros)]

    def merge(self, merge_context: MergeContext) -> None:
        """Merge overlapping windows; windows that only touch are not merged."""
        windows = [window for window in merge_context.windows if isinstance(window, IntervalWindow)]
        windows.sort(key=lambda window: window.start_us)
        run: list[IntervalWindow] = []
        end = 0
        for window in windows:
            if run and window.start_us >= end:
                _merge_run(merge_context, run, end)
                run = []
            end = max(end, window.end_us) if run else window.end_us
            run.append(window)
        _merge_run(merge_context, run, end)


def _merge_run(merge_context: MergeContext, run: list[IntervalWindow], end: int) -> None:
    if len(run) > 1:
        merge_context.merge(run, IntervalWindow.of_micros(run[0].start_us, end))
