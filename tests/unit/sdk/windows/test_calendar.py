"""Calendar windows by example: where days begin and end, in every kind of time zone."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, Timestamp
from headrace.sdk.windows import AssignContext, CalendarWindows, IntervalWindow, WindowFn
from headrace.sdk.windows.bounded import encode_interval
from headrace.sdk.windows.slices import slices_of, window_bounds
from headrace.sdk.windows.windowing import Windowing

HOUR = 3600 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(text: str, zone: str = "UTC") -> int:
    """The instant of a local time; with fold=1 if it ends in *."""
    local = datetime.fromisoformat(text.rstrip("*")).replace(tzinfo=ZoneInfo(zone), fold=text.endswith("*"))
    return round(local.timestamp()) * SECOND


def window_of(window_fn: WindowFn, timestamp: int) -> IntervalWindow:
    (window,) = window_fn.assign(AssignContext(Timestamp(micros=timestamp)))
    assert isinstance(window, IntervalWindow)
    return window


@pytest.mark.parametrize(
    ("window_fn", "inside", "begin", "end"),
    [
        (CalendarWindows.days(1), "2026-11-21T09:30", "2026-11-21", "2026-11-22"),
        (CalendarWindows.days(10), "1970-01-10T23:59", "1970-01-01", "1970-01-11"),
        (CalendarWindows.days(10), "1969-12-31", "1969-12-22", "1970-01-01"),
        (CalendarWindows.days(7).with_starting_day(2026, 11, 18), "2026-11-17", "2026-11-11", "2026-11-18"),
        (CalendarWindows.weeks(1), "2026-11-21", "2026-11-16", "2026-11-23"),
        (CalendarWindows.weeks(1, 7), "2026-11-21", "2026-11-15", "2026-11-22"),
        (CalendarWindows.weeks(1, 6), "2026-11-21", "2026-11-21", "2026-11-28"),
        (CalendarWindows.weeks(2, 4), "1970-01-14T12:00", "1970-01-01", "1970-01-15"),
        (CalendarWindows.months(1), "2024-02-29T23:59", "2024-02-01", "2024-03-01"),
        (CalendarWindows.months(3), "1969-12-31", "1969-10-01", "1970-01-01"),
        (CalendarWindows.months(1).beginning_on_day(15), "2026-03-14", "2026-02-15", "2026-03-15"),
        (CalendarWindows.months(5).with_starting_month(2026, 2), "2026-07-01", "2026-07-01", "2026-12-01"),
        (CalendarWindows.years(1), "2026-11-21", "2026-01-01", "2027-01-01"),
        (CalendarWindows.years(1).with_starting_day(2000, 7, 1), "2026-06-30", "2025-07-01", "2026-07-01"),
        (CalendarWindows.years(10).with_starting_year(2001), "2000-12-31", "1991-01-01", "2001-01-01"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_calendar_windows(window_fn: WindowFn, inside: str, begin: str, end: str, zone: str) -> None:
    window = window_of(window_fn.with_time_zone(zone), micros(inside, zone))
    assert (window.start_us, window.end_us) == (micros(begin, zone), micros(end, zone))


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Europe/Berlin", "2026-10-26", 24),
        ("America/Sao_Paulo", "2018-11-04", 23),  # begins at one o'clock
        ("America/Havana", "2020-11-01", 25),  # midnight comes twice
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("America/Toronto", "1919-03-31", 23.5),  # begins at half past twelve
        ("America/Toronto", "1919-03-30", 23.5),
        ("America/St_Johns", "2010-11-07", 25),  # goes back into the day before, after one minute
        ("Pacific/Apia", "2011-12-29", 24),  # the 30th was left out
    ],
)
def test_days_where_clocks_are_set(zone: str, day: str, hours: float) -> None:
    window_fn = CalendarWindows.days(1).with_time_zone(zone)
    window = window_of(window_fn, micros(f"{day}T12:00", zone))
    assert window.end_us - window.start_us == hours * HOUR
    after = window_of(window_fn, window.end_us)
    assert after.start_us == window.end_us
    first, before = (datetime.fromtimestamp(window.start_us // SECOND - ago, ZoneInfo(zone)) for ago in (0, 1))
    assert before.date() < first.date() == date.fromisoformat(day)


def test_an_hour_that_comes_twice_is_in_one_day() -> None:
    window_fn = CalendarWindows.days(1).with_time_zone("America/New_York")
    once, again = micros("2026-11-01T01:30", "America/New_York"), micros("2026-11-01T01:30*", "America/New_York")
    assert again - once == HOUR
    assert window_of(window_fn, once) == window_of(window_fn, again)


ALL = [
    unit.with_time_zone(zone)
    for unit in (CalendarWindows.days(1), CalendarWindows.weeks(2, 3), CalendarWindows.months(1))
    for zone in ("UTC", "America/St_Johns", "Pacific/Apia", "Africa/Monrovia", "Etc/GMT+12", "Pacific/Kiritimati")
]
ENDS = (-62135596800 * SECOND, 253402300800 * SECOND)
"""The beginning of year 1 and of year 10000, UTC."""
times = st.one_of(
    st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP - 1),
    st.integers(-(10**15), 4 * 10**15),
    *(st.integers(end - 96 * HOUR, end + 96 * HOUR) for end in ENDS),
)


@given(st.sampled_from(ALL), st.lists(times, max_size=20))
def test_windows_part_time_without_gaps(window_fn: WindowFn, timestamps: list[int]) -> None:
    found = [window for (window,) in window_fn.assign_all(timestamps, [None] * len(timestamps))]
    for timestamp, window in zip(timestamps, found, strict=True):
        assert isinstance(window, IntervalWindow) and window.start_us <= timestamp < window.end_us
        assert window_of(window_fn, window.start_us) == window == window_of(window_fn, window.end_us - 1)
        if window.end_us < MAX_TIMESTAMP:
            assert window_of(window_fn, window.end_us).start_us == window.end_us
    for first, second in pairwise(sorted(set(found), key=lambda window: window.end_us)):
        assert first.end_us <= second.start_us


@given(st.sampled_from(ALL), st.lists(times | st.just(MAX_TIMESTAMP), max_size=20))
def test_an_array_has_the_same_windows(window_fn: WindowFn, timestamps: list[int]) -> None:
    timestamps = [time for at in timestamps for time in (at, window_of(window_fn, at).start_us)]
    array, slices = np.array(timestamps, np.int64), slices_of(Windowing.of(window_fn))
    found = window_bounds(window_fn, array)
    windows = [window_of(window_fn, timestamp) for timestamp in timestamps]
    assert found is not None and slices is not None and slices.reaches(array)
    assert list(zip(*map(np.ndarray.tolist, found), strict=True)) == [(each.start_us, each.end_us) for each in windows]
    assert slices.starts(array).tolist() == list(map(slices.start, timestamps)) == found[0].tolist()
    assert list(map(slices.code, found[0].tolist())) == [
        encode_interval(each.start_us, each.end_us) for each in windows
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_first_and_last_days_of_the_calendar_are_days(zone: str) -> None:
    days = CalendarWindows.days(1).with_time_zone(zone)
    for day in ("0001-01-01", "0001-01-02", "0001-01-03", "0001-01-04", "9999-12-27", "9999-12-28", "9999-12-31"):
        local = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone))
        noon = (local - EPOCH) // timedelta(microseconds=1)
        window = window_of(days, noon)
        assert (window.start_us, window.end_us) == (noon - 12 * HOUR, noon + 12 * HOUR)
    years = CalendarWindows.years(1).with_time_zone(zone)
    assert window_of(years, noon).end_us == window.end_us
    before, after = window_of(days, MIN_TIMESTAMP), window_of(days, window.end_us)
    assert window_of(years, MIN_TIMESTAMP) == before and window_of(years, window.end_us) == after
    assert (before.start_us, after.end_us) == (MIN_TIMESTAMP, MAX_TIMESTAMP)
    assert window_of(days, before.end_us).end_us == before.end_us + 24 * HOUR


@pytest.mark.parametrize("window_fn", [*ALL, CalendarWindows.years(2)], ids=repr)
def test_calendar_windows_are_values(window_fn: WindowFn) -> None:
    window_of(window_fn, 5)
    copy = pickle.loads(pickle.dumps(window_fn))
    assert copy == window_fn and hash(copy) == hash(window_fn) and sum(copy == other for other in ALL) <= 1
    assert window_of(copy, 5) == window_of(window_fn, 5)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: CalendarWindows.days(0), "DaysWindows: number is 0; give a whole number of at least 1"),
        (lambda: CalendarWindows.weeks(0), "weeks: number is 0"),
        (lambda: CalendarWindows.weeks(1, 0), "start_day is 0; give 1 for Monday to 7 for Sunday"),
        (lambda: CalendarWindows.months(1.5), "MonthsWindows: number is 1.5"),
        (lambda: CalendarWindows.years(-1), "years: number is -1"),
        (lambda: CalendarWindows.months(1).beginning_on_day(29), "windows begin on day 29, which not every month has"),
        (lambda: CalendarWindows.days(1).with_time_zone("Mars/Olympus"), "there is no time zone 'Mars/Olympus'"),
        (lambda: CalendarWindows.days(1).with_time_zone("../etc/passwd"), "there is no time zone"),
    ],
)
def test_wrong_calendars_are_refused(make: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()
