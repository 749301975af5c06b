"""Where in event time results are computed: fixed, sliding, session, calendar, global and user-defined windows."""

from headrace.sdk.windows.bounded import BoundedWindow, GlobalWindow, IntervalWindow
from headrace.sdk.windows.calendar import CalendarWindows, DaysWindows, MonthsWindows
from headrace.sdk.windows.coder import GlobalWindowCoder, IntervalWindowCoder
from headrace.sdk.windows.fixed import FixedWindows
from headrace.sdk.windows.global_windows import GlobalWindows
from headrace.sdk.windows.sessions import Sessions
from headrace.sdk.windows.sliding import SlidingWindows
from headrace.sdk.windows.timestamp_combiner import TimestampCombiner
from headrace.sdk.windows.timestamped import TimestampedValue
from headrace.sdk.windows.window_fn import AssignContext, MergeContext, NonMergingWindowFn, WindowFn

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
    "TimestampedValue",
    "WindowFn",
]
