"""Where in event time results are computed: fixed, sliding, session, calendar, global and user-defined windows."""

from headrace.sdk.windows.bounded import (
    BoundedWindow,
    GlobalWindow,
    GlobalWindowCoder,
    IntervalWindow,
    IntervalWindowCoder,
)
from headrace.sdk.windows.calendar import CalendarWindows, DaysWindows, MonthsWindows
from headrace.sdk.windows.standard_windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from headrace.sdk.windows.window_fn import AssignContext, MergeContext, NonMergingWindowFn, WindowFn
from headrace.sdk.windows.windowing import TimestampCombiner

__all__ = [
    "AssignContext",
    "BoundedWindow",
    "CalendarWindows",
    "DaysWindows",
    "FixedWindows",
    "GlobalWindow",
    "GlobalWindowCoder",
    "GlobalWindows",
    "IntervalWindow",
    "IntervalWindowCoder",
    "MergeContext",
    "MonthsWindows",
    "NonMergingWindowFn",
    "Sessions",
    "SlidingWindows",
    "TimestampCombiner",
    "WindowFn",
]
