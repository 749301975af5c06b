"""Where: slices, which are intervals of event time whose elements are all in the same windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.columnar.key_columns import distinct_numbers
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.windows import (
    DaysWindows,
    FixedWindows,
    GlobalWindows,
    MonthsWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from headrace.sdk.windows.bounded import encode_interval
from headrace.sdk.windows.standard_windows import fits_int64, window_start, window_start_array
from headrace.sdk.windows.windowing import Windowing

Calendar: TypeAlias = DaysWindows | MonthsWindows
_MANY = 64
"""Number of timestamps from which on they are processed as an array."""


class Slices(Protocol):
    """Assigns timestamps to slices; a slice is identified by its start. Times are microseconds UTC."""

    def start(self, timestamp: int) -> int:
        """The start of the slice of a timestamp."""

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """Whether `starts` can be computed in 64 bits for these timestamps, of which there is at least one."""

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The start of the slice of each timestamp: int64, in the same order; `reaches` must be True."""

    def ends(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The end of each slice, given its start: int64. `starts` are of timestamps that `reaches` is True for."""

    def code(self, start: int) -> bytes:
        """The code of a slice in lifted payloads: that of its window, or of an interval within its windows."""


def slices_of(windowing: Windowing) -> Slices | None:
    """The slices of a windowing; None if its windows do not consist of slices."""
    window_fn = windowing.window_fn
    if type(window_fn) is GlobalWindows:
        return GlobalSlices()
    if type(window_fn) is FixedWindows:
        return FixedSlices(window_fn)
    if type(window_fn) is SlidingWindows and window_fn.period < window_fn.size:
        return SlidingSlices(window_fn)
    return CalendarSlices(window_fn) if is_calendar(window_fn) else None


def is_calendar(window_fn: WindowFn) -> TypeGuard[Calendar]:
    """Whether windows are those of `CalendarWindows`.

    >>> is_calendar(MonthsWindows(3, date(2026, 1, 1))), is_calendar(FixedWindows(60))
    (True, False)
    """
    return type(window_fn) in (DaysWindows, MonthsWindows)


def slots_of(found: Slices, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts of slices, ascending, and for each time the index of its own; there may be slices without times.

    There must be a time, and `found.reaches(times)` must be True. All arrays are int64.

    >>> slots_of(slices_of(Windowing.of(FixedWindows(10))), np.array([31_000_000, 12_000_000, 39_000_000]))
    (array([10000000, 20000000, 30000000]), array([2, 0, 2]))
    """
    if isinstance(found, FixedSlices):
        first = found.start(int(times.min()))
        count = (int(times.max()) - first) // found.size + 1
        if count <= len(times):
            return first + found.size * np.arange(count), (times - first) // found.size
    return distinct_numbers(found.starts(times))


def window_bounds(window_fn: WindowFn, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Start and end of the one window of each time, microseconds UTC: two int64 arrays as long as `times`.

    None for window functions other than `GlobalWindows`, `FixedWindows`, `Sessions` and those of `CalendarWindows`, for
    times near the ends of the time scale, and for windows too long for 64 bits.

    >>> [bounds.tolist() for bounds in window_bounds(FixedWindows(10), np.array([12_000_000]))]
    [[10000000], [20000000]]
    """
    if type(window_fn) is GlobalWindows:
        return np.full(len(times), MIN_TIMESTAMP, np.int64), np.full(len(times), END_OF_GLOBAL_WINDOW, np.int64)
    if is_calendar(window_fn):
        return window_fn.bounds(times)
    starts, size = times, 0
    if type(window_fn) is FixedWindows:
        size = window_fn.size.micros
    elif type(window_fn) is Sessions:
        # The window of an element begins at its timestamp.
        size = window_fn.gap_size.micros
    if not size or (len(times) and not fits_int64(times, size)):
        return None
    if type(window_fn) is FixedWindows:
        starts = FixedSlices(window_fn).starts(times)
    return np.maximum(starts, MIN_TIMESTAMP), np.minimum(starts + size, MAX_TIMESTAMP)


def slice_starts(found: Slices, timestamps: Sequence[int]) -> Sequence[int]:
    """The start of the slice of each timestamp, with any timestamps.

    >>> slice_starts(slices_of(Windowing.of(FixedWindows(10))), [12_000_000, MIN_TIMESTAMP])
    [10000000, -9223372036860000000]
    """
    times = np.fromiter(timestamps, np.int64, len(timestamps))
    if len(times) < _MANY or not found.reaches(times):
        return list(map(found.start, timestamps))
    distinct, places = np.unique(found.starts(times), return_inverse=True)
    return list(map(distinct.tolist().__getitem__, places.reshape(-1).tolist()))


@stored_as("GlobalBuckets")
class GlobalSlices:
    """Slices of the global window: one slice of all time."""

    def start(self, timestamp: int) -> int:
        """See `Slices`."""
        return MIN_TIMESTAMP

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Slices`. Always True, because timestamps do not matter."""
        return True

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return np.full(len(timestamps), MIN_TIMESTAMP, np.int64)

    def ends(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return np.full(len(starts), END_OF_GLOBAL_WINDOW, np.int64)

    def code(self, start: int) -> bytes:
        """See `Slices`."""
        return b""


@stored_as("FixedBuckets")
class FixedSlices:
    """Slices of fixed windows: each window is a slice."""

    def __init__(self, window_fn: FixedWindows) -> None:
        self._size, self._offset = window_fn.size.micros, window_fn.offset.micros

    @property
    def size(self) -> int:
        """Length of a slice, microseconds."""
        return self._size

    def start(self, timestamp: int) -> int:
        """See `Slices`."""
        return window_start(timestamp, self._size, self._offset)

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Slices`."""
        return fits_int64(timestamps, self._size)

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return window_start_array(timestamps, self._size, self._offset)

    def ends(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return np.minimum(starts + self._size, MAX_TIMESTAMP)

    def code(self, start: int) -> bytes:
        """See `Slices`."""
        return encode_interval(max(start, MIN_TIMESTAMP), min(start + self._size, MAX_TIMESTAMP))


@stored_as("SlidingBuckets")
class SlidingSlices:
    """Slices of sliding windows: each period, split in two where windows end within the period.

    >>> split = SlidingSlices(SlidingWindows(size=5, period=3))
    >>> split.starts(np.array([3_000_000, 4_999_999, 5_000_000])).tolist()
    [3000000, 3000000, 5000000]
    """

    def __init__(self, window_fn: SlidingWindows) -> None:
        self._period, self._offset = window_fn.period.micros, window_fn.offset.micros
        self._first = (window_fn.size.micros - 1) % self._period + 1

    def start(self, timestamp: int) -> int:
        """See `Slices`."""
        start = window_start(timestamp, self._period, self._offset)
        return start if timestamp - start < self._first else start + self._first

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Slices`."""
        return fits_int64(timestamps, self._period)

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        starts = window_start_array(timestamps, self._period, self._offset)
        return np.where(timestamps - starts < self._first, starts, starts + self._first)

    def ends(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        begins = window_start_array(starts, self._period, self._offset)
        return np.minimum(begins + np.where(starts == begins, self._first, self._period), MAX_TIMESTAMP)

    def code(self, start: int) -> bytes:
        """See `Slices`."""
        period_start = window_start(start, self._period, self._offset)
        end = period_start + (self._first if start == period_start else self._period)
        return encode_interval(max(start, MIN_TIMESTAMP), min(end, MAX_TIMESTAMP))


@lru_cache(maxsize=64)
def _calendar_slices(of_months: bool, number: int, start: date, time_zone: str) -> CalendarSlices:
    return CalendarSlices((MonthsWindows if of_months else DaysWindows)(number, start, time_zone))


@stored_as("CalendarSlices", make=_calendar_slices, parts=lambda slices: slices.parts)
class CalendarSlices:
    """Slices of calendar windows: each window is a slice."""

    def __init__(self, window_fn: Calendar) -> None:
        self._window_fn = window_fn

    @property
    def parts(self) -> tuple[bool, int, date, str]:
        """Whether windows are of months, and the number, the first day and the time zone of the window function."""
        window_fn = self._window_fn
        return type(window_fn) is MonthsWindows, window_fn.number, window_fn.start, window_fn.time_zone

    def start(self, timestamp: int) -> int:
        """See `Slices`."""
        return self._window_fn.window_at(timestamp).start_us

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Slices`. Always True, because windows end with the time scale."""
        return True

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return self._window_fn.bounds(timestamps)[0]

    def ends(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices`."""
        return self._window_fn.bounds(starts)[1]

    def code(self, start: int) -> bytes:
        """See `Slices`."""
        window = self._window_fn.window_at(start)
        return encode_interval(window.start_us, window.end_us)
