"""Where: calendar windows of whole days, weeks, months or years of a time zone (Beam Java's `CalendarWindows`)."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.windows.bounded import BoundedWindow, IntervalWindow
from headrace.sdk.windows.window_fn import AssignContext, AssignedWindows, NonMergingWindowFn, WindowsBefore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
"""Microseconds of a day without a change of clocks."""
_FIRST, _LAST = date(1, 1, 3), date(9999, 12, 29)
"""First and last date whose instants a `datetime` can express in every time zone; no clocks change beyond them."""
_REMEMBERED = 20_000
"""Number of cached windows; a look-up is much faster than finding the bounds of a window."""


class _Known:
    """A cache of windows, ordered by time; pickling drops its contents."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._windows: list[IntervalWindow] = []

    def find(self, timestamp: int) -> IntervalWindow | None:
        """The cached window that contains a timestamp; None if there is none."""
        place = bisect_right(self._starts, timestamp)
        window = self._windows[place - 1] if place else None
        return window if window is not None and timestamp < window.end_us else None

    def add(self, window: IntervalWindow) -> None:
        """Add a window to the cache."""
        if len(self._starts) >= _REMEMBERED:
            self._starts.clear()
            self._windows.clear()
        place = bisect_right(self._starts, window.start_us)
        self._starts.insert(place, window.start_us)
        self._windows.insert(place, window)

    def __reduce__(self) -> tuple[object, ...]:
        return _Known, ()


# No slots, so that attributes of subclasses are pickled too.
@dataclass(frozen=True)
class _Calendar(NonMergingWindowFn):
    """Windows of `number` days or months, which begin at midnight; one of them begins on the day `start`.

    Raises ValueError for a `number` that is not an int of at least 1, and for an unknown time zone.
    """

    number: int
    """Number of days or months in a window."""
    start: date
    """The first day of some window."""
    time_zone: str = "UTC"
    """Name of the time zone, as in the IANA database."""
    _known: _Known = field(default_factory=_Known, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 1:
            raise ValueError(f"{type(self).__name__}: number is {self.number!r}; give a whole number of at least 1")
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise ValueError(
                f"{type(self).__name__}: there is no time zone {self.time_zone!r}; give a name such as "
                "'Europe/Berlin', and install tzdata if the system has no time zones"
            ) from error

    @abstractmethod
    def _index_of(self, day: date) -> int:
        """The number of windows between `start` and the window of a day; negative before `start`."""

    @abstractmethod
    def _day_of(self, index: int) -> date:
        """The first day of the window with this number; raises OverflowError or ValueError if there is no such date."""

    def with_time_zone(self, time_zone: str) -> Self:
        """The same windows in another time zone, given by its name in the IANA database."""
        return replace(self, time_zone=time_zone)

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The window that contains the element's timestamp."""
        return [self.window_at(context.timestamp.micros)]

    def assign_all(
        self, timestamps: Sequence[int], values: Sequence[object], windows: WindowsBefore = None
    ) -> AssignedWindows:
        """The window of each timestamp, in the order of the timestamps (microseconds UTC)."""
        assigned: list[tuple[BoundedWindow, ...]] = []
        start, end, current = 0, 0, ()  # type: tuple[int, int, tuple[BoundedWindow, ...]]
        for timestamp in timestamps:
            if not start <= timestamp < end:
                window = self.window_at(timestamp)
                start, end, current = window.start_us, window.end_us, (window,)
            assigned.append(current)
        return assigned

    def window_at(self, timestamp: int) -> IntervalWindow:
        """The window that contains a timestamp, microseconds UTC."""
        window = self._known.find(timestamp)
        if window is None:
            window = self._find(timestamp)
            self._known.add(window)
        return window

    def bounds(self, timestamps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Start and end of the window of each timestamp, microseconds UTC: two int64 arrays in the same order.

        >>> CalendarWindows.months(1).bounds(np.array([86_400_000_000]))
        (array([0]), array([2678400000000]))
        """
        ordered, windows, place = np.sort(timestamps), list[IntervalWindow](), 0
        while place < len(ordered):
            windows.append(self.window_at(int(ordered[place])))
            # The last of all instants is in no window that ends with it.
            place = max(place + 1, int(np.searchsorted(ordered, windows[-1].end_us)))
        starts = np.array([window.start_us for window in windows], np.int64)
        ends = np.array([window.end_us for window in windows], np.int64)
        places = np.searchsorted(starts, timestamps, "right") - 1
        return starts[places], ends[places]

    def _find(self, timestamp: int) -> IntervalWindow:
        """The window of a timestamp: first by date, then by instants, because clocks may be set back over midnight."""
        zone = ZoneInfo(self.time_zone)
        before, after = _years_1_to_9999(zone)
        if timestamp < before:
            return IntervalWindow.of_micros(MIN_TIMESTAMP, before)
        if timestamp >= after:
            return IntervalWindow.of_micros(after, MAX_TIMESTAMP)
        index = self._index_of(_local_date(timestamp, zone))
        while timestamp < (start := self._instant(index, zone)):
            index -= 1
        while timestamp >= (end := self._instant(index + 1, zone)):
            start, index = end, index + 1
        return IntervalWindow.of_micros(max(start, before), min(end, after))

    def _instant(self, index: int, zone: ZoneInfo) -> int:
        """The start of the window with this number, microseconds UTC."""
        try:
            day = self._day_of(index)
        except (OverflowError, ValueError):
            return MIN_TIMESTAMP if index < 0 else MAX_TIMESTAMP
        return _first_instant(day, zone)


@named("DaysWindows")
@dataclass(frozen=True)
class DaysWindows(_Calendar):
    """Windows of a number of days, counted from `start`: `CalendarWindows.days` and `CalendarWindows.weeks`."""

    def with_starting_day(self, year: int, month: int, day: int) -> DaysWindows:
        """The same windows, counted from another day."""
        return replace(self, start=date(year, month, day))

    def _index_of(self, day: date) -> int:
        return (day - self.start).days // self.number

    def _day_of(self, index: int) -> date:
        return self.start + timedelta(days=index * self.number)


@named("MonthsWindows")
@dataclass(frozen=True)
class MonthsWindows(_Calendar):
    """Windows of a number of months, counted from `start`: `CalendarWindows.months` and `CalendarWindows.years`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start.day > 28:
            raise ValueError(
                f"{type(self).__name__}: windows begin on day {self.start.day}, which not every month has; give 1 to 28"
            )

    def with_starting_day(self, year: int, month: int, day: int) -> MonthsWindows:
        """The same windows, counted from another day; windows begin on that day of the month, 1 to 28."""
        return replace(self, start=date(year, month, day))

    def with_starting_month(self, year: int, month: int) -> MonthsWindows:
        """The same windows, counted from another month."""
        return replace(self, start=self.start.replace(year=year, month=month))

    def with_starting_year(self, year: int) -> MonthsWindows:
        """The same windows, counted from another year."""
        return replace(self, start=self.start.replace(year=year))

    def beginning_on_day(self, day: int) -> MonthsWindows:
        """The same windows, which begin on this day of the month, 1 to 28."""
        return replace(self, start=self.start.replace(day=day))

    def _index_of(self, day: date) -> int:
        months = 12 * (day.year - self.start.year) + day.month - self.start.month
        return (months - (day.day < self.start.day)) // self.number

    def _day_of(self, index: int) -> date:
        years, month = divmod(self.start.month - 1 + index * self.number, 12)
        return self.start.replace(year=self.start.year + years, month=month + 1)


class CalendarWindows:
    """Factories of windows of whole days, weeks, months or years, in a time zone and from a starting day.

    A day is from midnight to midnight of the time zone: where clocks are set forward or back it has 23 or 25 hours.
    Where a zone skips midnight, the day begins with its first instant.

    >>> [window] = CalendarWindows.days(1).with_time_zone("Europe/Berlin").assign(AssignContext(1_774_750_000))
    >>> (window.end - window.start).micros / 3_600_000_000  # the 29th of March 2026
    23.0
    >>> CalendarWindows.months(3).beginning_on_day(15)
    MonthsWindows(number=3, start=datetime.date(1970, 1, 15), time_zone='UTC')
    """

    @staticmethod
    def days(number: int) -> DaysWindows:
        """Windows of `number` days, counted from 1 January 1970."""
        return DaysWindows(number, date(1970, 1, 1))

    @staticmethod
    def weeks(number: int, start_day: int = 1) -> DaysWindows:
        """Windows of `number` weeks, which begin on a day of the week: 1 for Monday to 7 for Sunday.

        Raises ValueError if `number` is not an int of at least 1, or `start_day` is not from 1 to 7.
        """
        if start_day not in range(1, 8):
            raise ValueError(f"CalendarWindows.weeks: start_day is {start_day!r}; give 1 for Monday to 7 for Sunday")
        if type(number) is not int or number < 1:
            raise ValueError(f"CalendarWindows.weeks: number is {number!r}; give a whole number of at least 1")
        return DaysWindows(7 * number, date(1969, 12, 28) + timedelta(days=start_day))

    @staticmethod
    def months(number: int) -> MonthsWindows:
        """Windows of `number` months, counted from January 1970."""
        return MonthsWindows(number, date(1970, 1, 1))

    @staticmethod
    def years(number: int) -> MonthsWindows:
        """Windows of `number` years, counted from 1970. Raises ValueError if `number` is not an int of at least 1."""
        if type(number) is not int or number < 1:
            raise ValueError(f"CalendarWindows.years: number is {number!r}; give a whole number of at least 1")
        return MonthsWindows(12 * number, date(1970, 1, 1))


def _local_date(timestamp: int, zone: ZoneInfo) -> date:
    """The date of an instant (microseconds UTC) in a time zone; the first or last of all dates beyond these."""
    first, last = _first_instant(_FIRST, zone), _first_instant(_LAST, zone)
    try:
        if timestamp < first:
            return _FIRST - timedelta(days=-((timestamp - first) // _DAY))
        if timestamp >= last:
            return _LAST + timedelta(days=(timestamp - last) // _DAY)
    except OverflowError:
        return date.min if timestamp < 0 else date.max
    return _date_within(timestamp, zone)


@cache
def _years_1_to_9999(zone: ZoneInfo) -> tuple[int, int]:
    """The instants of a time zone, microseconds UTC, between which there are dates."""
    return _first_instant(date.min, zone), _first_instant(date.max, zone) + _DAY


@lru_cache(maxsize=_REMEMBERED)
def _first_instant(day: date, zone: ZoneInfo) -> int:
    """The first instant of a date in a time zone, microseconds UTC."""
    if not _FIRST <= day <= _LAST:
        known = max(_FIRST, min(day, _LAST))
        return _first_instant(known, zone) + (day - known).days * _DAY
    midnight = (datetime(day.year, day.month, day.day, tzinfo=zone) - _EPOCH) // _MICROSECOND
    if _date_within(midnight - 1, zone) < day:
        return midnight
    # The clocks were set forward over midnight, from the day before: search for the instant.
    early, late = midnight - _DAY, midnight
    while late - early > 1:
        middle = (early + late) // 2
        if _date_within(middle, zone) < day:
            early = middle
        else:
            late = middle
    return late


def _date_within(timestamp: int, zone: ZoneInfo) -> date:
    """The date of an instant (microseconds UTC) from the day before `_FIRST` to the day after `_LAST`."""
    return (_EPOCH + timedelta(microseconds=timestamp)).astimezone(zone).date()
