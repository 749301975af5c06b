"""Where: the interface of window functions (Streaming 102, "Where: windowing"; Beam's `WindowFn`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.time import Duration, Timestamp, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow, IntervalWindowCoder

OUTSIDE_WINDOWS = "outside_windows"
"""Counter of elements that a window function puts into no window."""


class AssignContext:
    """The argument of `WindowFn.assign`: an element, its timestamp, and the window that it was in (None if unknown)."""

    __slots__ = ("element", "timestamp", "window")

    def __init__(self, timestamp: TimestampTypes, element: object = None, window: BoundedWindow | None = None) -> None:
        self.timestamp = Timestamp.of(timestamp)
        self.element = element
        self.window = window


class MergeContext(ABC):
    """The argument of `WindowFn.merge`: the windows of a key, and a method that merges some of them."""

    def __init__(self, windows: Iterable[BoundedWindow]) -> None:
        self.windows = list(windows)

    @abstractmethod
    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        """Replace some windows by one window that contains their elements."""


WindowsBefore: TypeAlias = Sequence[BoundedWindow | None] | None
"""The windows in which elements were before; None for elements that were in none."""
AssignedWindows: TypeAlias = list[tuple[BoundedWindow, ...]]
"""The windows of each element."""
_Assign: TypeAlias = AssignContext
_Merge: TypeAlias = MergeContext


class WindowFn(ABC):
    """Assigns each element to windows of event time, and merges windows.

    Subclass it, or `NonMergingWindowFn`, for windows of your own: `assign`, `merge`, and `get_window_coder` if the
    windows are not `IntervalWindow`s.

    >>> class Hours(NonMergingWindowFn):
    ...     def assign(self, context):
    ...         from headrace.sdk.windows.bounded import IntervalWindow
    ...         start = context.timestamp - context.timestamp % 3600
    ...         return [IntervalWindow(start, start + 3600)]
    >>> Hours().assign_all([3_601_000_000], ["a"])
    [([3600.0, 7200.0),)]
    """

    AssignContext: TypeAlias = _Assign
    MergeContext: TypeAlias = _Merge

    @abstractmethod
    def assign(self, context: _Assign) -> Iterable[BoundedWindow]:
        """The windows of one element."""

    def assign_all(
        self, timestamps: Sequence[int], values: Sequence[object], windows: WindowsBefore = None
    ) -> AssignedWindows:
        """The windows of each element.

        Window functions of this package override this method with faster implementations.

        Args:
            timestamps: Microseconds UTC, one for each element.
            values: The elements.
            windows: The windows that the elements were in, one for each element; None if unknown.

        Returns:
            A tuple of windows for each element, in the same order.

        Raises:
            TypeError: `assign` has not returned an iterable of windows.
        """
        before: Sequence[BoundedWindow | None] = windows if windows is not None else [None] * len(values)
        return [
            self._checked(self.assign(AssignContext(Timestamp(micros=timestamp), value, window)))
            for timestamp, value, window in zip(timestamps, values, before, strict=True)
        ]

    def _checked(self, assigned: Iterable[BoundedWindow]) -> tuple[BoundedWindow, ...]:
        if isinstance(assigned, Iterable):
            windows = tuple(assigned)
            if all(isinstance(window, BoundedWindow) for window in windows):
                return windows
        raise TypeError(
            f"{type(self).__name__}.assign returned {assigned!r:.200}; return a list of windows, each a BoundedWindow"
        )

    @abstractmethod
    def merge(self, merge_context: _Merge) -> None:
        """Call `merge_context.merge(windows, result)` for each set of windows to merge; each window at most once."""

    def is_merging(self) -> bool:
        """Whether `merge` may merge windows."""
        return True

    def get_window_coder(self) -> Coder:
        """The coder of the windows; it must encode equal windows as equal bytes."""
        return IntervalWindowCoder()

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        """The timestamp that `OUTPUT_AT_EARLIEST_TRANSFORMED` uses for an element; not before `input_timestamp`."""
        return input_timestamp


class NonMergingWindowFn(WindowFn):
    """A window function whose windows are never merged.

    >>> from headrace.transforms.window import FixedWindows, Sessions
    >>> isinstance(FixedWindows(60), NonMergingWindowFn), isinstance(Sessions(60), NonMergingWindowFn)
    (True, False)
    """

    def is_merging(self) -> bool:
        """Return False."""
        return False

    def merge(self, merge_context: MergeContext) -> None:
        """Do nothing."""


def offset_within(offset: TimestampTypes | timedelta, period: Duration) -> Duration:
    """The offset of windows within their period, from an instant at which one may begin or a time since 1970 UTC."""
    at = Timestamp(0) + offset if isinstance(offset, timedelta) else Timestamp.of(offset)
    return at % period


def positive(name: str, micros: int) -> int:
    """Return `micros` if it is positive; else raise ValueError with the parameter's name in its message."""
    if micros <= 0:
        raise ValueError(f"{name} is {micros / 1_000_000:g} s; give more than 0 seconds")
    return micros
