"""Under the name that Beam programs import: windows and window functions."""

from headrace.sdk.windowedvalue import WindowedValue
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
    TimestampedValue,
    WindowFn,
)

__all__ = [
    "BoundedWindow",
    "CalendarWindows",
    "FixedWindows",
    "GlobalWindow",
    "GlobalWindows",
    "IntervalWindow",
    "NonMergingWindowFn",
    "Sessions",
    "SlidingWindows",
    "TimestampCombiner",
    "TimestampedValue",
    "WindowFn",
    "WindowedValue",
]
