"""Exports, under the module name of Beam, windows and window functions."""

from headrace.sdk.model.special_outputs import TimestampedValue, WindowedValue
from headrace.sdk.operators.grouping.merging import MergeError
from headrace.sdk.windows import (
    BoundedWindow,
    CalendarWindows,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)

__all__ = [
    "BoundedWindow",
    "CalendarWindows",
    "FixedWindows",
    "GlobalWindow",
    "GlobalWindows",
    "IntervalWindow",
    "MergeError",
    "NonMergingWindowFn",
    "Sessions",
    "SlidingWindows",
    "TimestampCombiner",
    "TimestampedValue",
    "WindowFn",
    "WindowedValue",
]
