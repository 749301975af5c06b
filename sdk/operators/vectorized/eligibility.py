"""When and how: whether a grouping may work on all keys of an interval at once, and what stands against it."""

from __future__ import annotations

from dataclasses import replace

from headrace.sdk.columns.firing import Firing
from headrace.sdk.columns.grouping import has_columns, has_windows
from headrace.sdk.columns.panegrouping import has_panes
from headrace.sdk.columns.reducers import reducers_of
from headrace.sdk.columns.sessiongrouping import gap_of
from headrace.sdk.contents import Combiner
from headrace.sdk.statesignature import combiner_kind, trigger_kind, window_kind
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import TimestampCombiner


def obstacle(windowing: Windowing, combine: Combiner | None, *, takes_back: bool, spread: bool) -> str | None:
    """Why a grouping goes key by key; None if it may take all keys at once.

    Args:
        windowing: Of its input.
        combine: Its CombineFn, if it has one.
        takes_back: Whether its input may have retractions.
        spread: Whether hot keys are fanned out.

    >>> from headrace.sdk.windows import FixedWindows
    >>> obstacle(Windowing.of(FixedWindows(60)), None, takes_back=False, spread=False)
    'it keeps all elements; combine them (CombinePerKey) if that is enough'
    """
    if combine is None:
        return "it keeps all elements; combine them (CombinePerKey) if that is enough"
    if takes_back:
        return "its input may have retractions"
    if reducers_of(combine) is None:
        return f"{combiner_kind(combine)} is not one of sum, count, mean, max and min"
    if windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW:
        return "the time of a pane depends on those of its elements"
    if has_columns(windowing) or has_panes(windowing) or (gap_of(windowing) is not None and not spread):
        return None
    if not windowing.puts_out_once:
        return "a window may have more panes than the one at its end, " + _panes_obstacle(windowing)
    return f"its windows come from {window_kind(windowing.window_fn)}" + (" with fan-out" if spread else "")


def _panes_obstacle(windowing: Windowing) -> str:
    """Why windows with several panes are not taken all at once."""
    if not has_windows(windowing):
        return f"and windows come from {window_kind(windowing.window_fn)}"
    if windowing.accumulation_mode is AccumulationMode.ACCUMULATING_AND_RETRACTING:
        return "and panes take back those before them"
    if Firing.of(replace(windowing, allowed_lateness_us=0)) is not None:
        return "and one that is not ready when its window ends holds the watermark"
    return f"and {trigger_kind(windowing.trigger)} does more than count elements or wait, again and again"
