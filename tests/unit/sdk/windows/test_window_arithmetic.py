"""The start of a period: the same from a number, from a list and from an array, for all times."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration
from headrace.sdk.windows import FixedWindows, SlidingWindows
from headrace.sdk.windows.slices import FixedSlices, SlidingSlices
from headrace.sdk.windows.standard_windows import (
    INT64_LIMIT,
    fits_int64,
    window_start,
    window_start_array,
    window_start_list,
)

EXTREMES = [MIN_TIMESTAMP, -INT64_LIMIT, 1 - INT64_LIMIT, -1, 0, 1, INT64_LIMIT - 1, INT64_LIMIT, MAX_TIMESTAMP]
TIMES = st.lists(
    st.sampled_from(EXTREMES) | st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP) | st.integers(-99, 99), min_size=1
)
PERIODS = st.integers(1, 50) | st.integers(1, 4 * INT64_LIMIT)


@given(TIMES, PERIODS, st.data())
def test_the_start_is_that_of_the_period_around_the_time(times: list[int], period: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, period - 1))
    starts = [window_start(time, period, offset) for time in times]
    assert all(start <= time < start + period for start, time in zip(starts, times, strict=True))
    assert all((start - offset) % period == 0 for start in starts)
    assert window_start_list(times, period, offset) == starts


@given(TIMES, PERIODS, st.data())
@example([1 - INT64_LIMIT, INT64_LIMIT - 1], INT64_LIMIT - 1, None)
def test_an_array_has_the_same_starts(times: list[int], period: int, data: st.DataObject | None) -> None:
    offset = period - 1 if data is None else data.draw(st.integers(0, period - 1))
    array = np.array(times, np.int64)
    if fits_int64(array, period):
        assert window_start_array(array, period, offset).tolist() == window_start_list(times, period, offset)


@pytest.mark.parametrize("time", EXTREMES)
def test_only_times_near_the_ends_do_not_fit(time: int) -> None:
    assert fits_int64(np.array([0, time])) == (abs(time) < INT64_LIMIT)


@given(TIMES, st.integers(1, 60), st.integers(1, 60), st.integers(0, 59))
def test_slices_are_the_same_by_number_and_by_array(times: list[int], size: int, period: int, offset: int) -> None:
    at = timedelta(microseconds=offset)
    fixed = FixedWindows(Duration(micros=size), at)
    sliding = SlidingWindows(Duration(micros=size), Duration(micros=period), at)
    array = np.array(times, np.int64)
    for slices in (FixedSlices(fixed), SlidingSlices(sliding)):
        if slices.reaches(array):
            assert slices.starts(array).tolist() == list(map(slices.start, times))


@given(st.integers(-500, 500), st.integers(1, 60), st.integers(1, 60), st.integers(0, 59))
def test_times_of_a_sliding_slice_are_in_the_same_windows(time: int, size: int, period: int, offset: int) -> None:
    windows = SlidingWindows(Duration(micros=size), Duration(micros=period), timedelta(microseconds=offset))
    slices = SlidingSlices(windows)
    for other in range(time - 60, time + 60):
        if slices.start(other) == slices.start(time):
            assert windows.starts(other) == windows.starts(time)
