"""Where: what assigns elements to windows and merges windows (Streaming 102, "Where: windowing"; Beam's `WindowFn`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias

from headrace.lowlevel.coder import Coder
from headrace.lowlevel.time import Duration, Timestamp, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow
from headrace.sdk.windows.coder import IntervalWindowCoder


class AssignContext:
    """What `WindowFn.assign` is given: an element, its timestamp and the window it was in."""

    __slots__ = ("element", "timestamp", "window")

    def __init__(self, timestamp: TimestampTypes, element: object = None, window: BoundedWindow | None = None) -> None:
        self.timestamp = Timestamp.of(timestamp)
        self.element = element
        self.window = window


class MergeContext(ABC):
    """What `WindowFn.merge` is given: the windows there are, and `merge` to put some of them together."""

    def __init__(self, windows: Iterable[BoundedWindow]) -> None:
        self.windows = list(windows)

    @abstractmethod
    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        """Replace the windows by one that holds all that they hold."""


_Assign: TypeAlias = AssignContext
_Merge: TypeAlias = MergeContext


class WindowFn(ABC):
    """Assigns each element to windows of event time, and says which windows become one.

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
        self,
        timestamps: Sequence[int],
        values: Sequence[object],
        windows: Sequence[BoundedWindow | None] | None = None,
    ) -> list[tuple[BoundedWindow, ...]]:
        """The windows of each of many elements; timestamps in microseconds UTC, `windows` those they were in.

        Window functions of this package overrule it with something quicker.
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
        """Call `merge_context.merge(some, result)` for windows that belong together; each at most once."""

    def is_merging(self) -> bool:
        """Whether `merge` ever does anything."""
        return True

    def get_window_coder(self) -> Coder:
        """How the windows become bytes; equal windows must have equal bytes."""
        return IntervalWindowCoder()

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        """For `OUTPUT_AT_EARLIEST_TRANSFORMED`: what an element's timestamp counts as; not before it."""
        return input_timestamp


class NonMergingWindowFn(WindowFn):
    """A window function whose windows stay as they were assigned."""

    def is_merging(self) -> bool:
        """Never."""
        return False

    def merge(self, merge_context: MergeContext) -> None:
        """Nothing to do."""


def offset_within(offset: TimestampTypes | timedelta, period: Duration) -> Duration:
    """Where windows begin within their period, from an instant at which one may begin, or the time since 1970 UTC."""
    at = Timestamp(0) + offset if isinstance(offset, timedelta) else Timestamp.of(offset)
    return at % period


def positive(name: str, micros: int) -> int:
    """The microseconds, if there are any; else an error that names the parameter."""
    if micros <= 0:
        raise ValueError(f"{name} is {micros / 1_000_000:g} s; give more than 0 seconds")
    return micros
