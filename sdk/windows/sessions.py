"""Where: sessions, periods of activity that end with a gap of inactivity (Streaming 102, figures 16 and 17)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.windows.bounded import BoundedWindow, IntervalWindow
from headrace.sdk.windows.window_fn import AssignContext, MergeContext, WindowFn, positive


# No slots, so that attributes of subclasses are pickled too.
@named("Sessions")
@dataclass(frozen=True, init=False)
class Sessions(WindowFn):
    """Elements of a key less than `gap_size` seconds apart share a window, in whatever order they arrive.

    Each element begins as a window of its own, from its timestamp to a gap after it; overlapping windows merge.

    >>> Sessions(10).assign_all([5_000_000], [None])
    [([5.0, 15.0),)]
    """

    gap_size: Duration

    def __init__(self, gap_size: DurationTypes) -> None:
        gap = positive("Sessions: gap_size", Duration.of(gap_size).micros)
        object.__setattr__(self, "gap_size", Duration(micros=gap))

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The window of one element, from its timestamp to a gap later, before it is merged with others."""
        start = context.timestamp.micros
        return [IntervalWindow.of_micros(start, start + self.gap_size.micros)]

    def merge(self, merge_context: MergeContext) -> None:
        """Merge overlapping windows; windows that only touch are not merged."""
        windows = [window for window in merge_context.windows if isinstance(window, IntervalWindow)]
        windows.sort(key=lambda window: window.start_us)
        run: list[IntervalWindow] = []
        end = 0
        for window in windows:
            if run and window.start_us >= end:
                _merge_run(merge_context, run, end)
                run = []
            end = max(end, window.end_us) if run else window.end_us
            run.append(window)
        _merge_run(merge_context, run, end)


def _merge_run(merge_context: MergeContext, run: list[IntervalWindow], end: int) -> None:
    if len(run) > 1:
        merge_context.merge(run, IntervalWindow.of_micros(run[0].start_us, end))
