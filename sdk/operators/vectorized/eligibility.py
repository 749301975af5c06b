"""When and how: whether a grouping can be vectorized (all keys of an interval at once), and if not, why."""

from __future__ import annotations

from dataclasses import replace

from headrace.sdk.combinefns.combine_fn import AnyCombineFn, combiner_kind
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.vectorized.trigger_kernel import Firing
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner
from headrace.sdk.windows.slices import is_calendar
from headrace.sdk.windows.windowing import Windowing, trigger_kind, window_kind

_LONGEST = 1 << 61
"""Length of a window or a gap, microseconds, from which on 64-bit arithmetic might overflow."""


def has_windows(windowing: Windowing) -> bool:
    """Whether `ColumnGrouping` supports the windows.

    These are fixed, overlapping sliding, calendar and global windows, the first two if shorter than `_LONGEST`.
    """
    window_fn = windowing.window_fn
    if type(window_fn) is SlidingWindows:
        return window_fn.period < window_fn.size and window_fn.size.micros < _LONGEST
    if type(window_fn) is FixedWindows:
        return window_fn.size.micros < _LONGEST
    return type(window_fn) is GlobalWindows or is_calendar(window_fn)


def gap_of(windowing: Windowing) -> int | None:
    """The gap of sessions that `ColumnSessions` supports, microseconds; None for other windowings."""
    window_fn = windowing.window_fn
    if type(window_fn) is not Sessions or window_fn.gap_size.micros >= _LONGEST or not windowing.puts_out_once:
        return None
    return window_fn.gap_size.micros if windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW else None


def obstacle(windowing: Windowing, combine: AnyCombineFn | None, *, takes_back: bool, spread: bool) -> str | None:
    """Why a grouping is not vectorized, in the words of `headrace explain`; None if it can be.

    Args:
        windowing: Windowing of the grouping's input.
        combine: CombineFn of the grouping; None if it keeps elements.
        takes_back: Whether the input may have retractions.
        spread: Whether the program asks for a fan-out of hot keys.

    >>> from headrace.sdk.windows import Sessions
    >>> obstacle(Windowing.of(Sessions(60)), None, takes_back=False, spread=False)
    'it keeps all elements of windows from Sessions; combine them (CombinePerKey) if that is enough'
    """
    if takes_back:
        return "its input may have retractions"
    if combine is None:
        return _obstacle_to_lists(windowing)
    if reducers_of(combine) is None:
        return (
            f"the engine does not combine columns as {combiner_kind(combine)} with these arguments does; a "
            "VectorizedCombineFn can"
        )
    if windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW:
        return "the time of a pane depends on those of its elements"
    if has_windows(windowing) and (windowing.puts_out_once or Firing.of(windowing) is not None):
        # Values are combined before the shuffle, so that no trigger can look at them.
        return "its trigger looks at the values of elements" if windowing.trigger.needs_values else None
    if gap_of(windowing) is not None and not spread:
        return None
    if not windowing.puts_out_once:
        return "a window may have more panes than the one at its end, " + _panes_obstacle(windowing)
    return f"its windows come from {window_kind(windowing.window_fn)}" + (" with fan-out" if spread else "")


def _obstacle_to_lists(windowing: Windowing) -> str | None:
    """Why a grouping that keeps elements is not vectorized; None if it can be."""
    if windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW:
        return "the time of a pane depends on those of its elements"
    if not windowing.puts_out_once:
        reason = "it keeps all elements of windows that may have more panes than the one at their end"
    elif not has_windows(windowing) or isinstance(windowing.window_fn, SlidingWindows):
        reason = f"it keeps all elements of windows from {window_kind(windowing.window_fn)}"
    else:
        return None
    return f"{reason}; combine them (CombinePerKey) if that is enough"


def _panes_obstacle(windowing: Windowing) -> str:
    """The reason why windows with several panes are not vectorized."""
    if not has_windows(windowing):
        return f"and windows come from {window_kind(windowing.window_fn)}"
    if Firing.of(replace(windowing, allowed_lateness_us=0)) is not None:
        return "and one that is not ready when its window ends holds the watermark"
    return f"and {trigger_kind(windowing.trigger)} does more than count elements or wait, again and again"
