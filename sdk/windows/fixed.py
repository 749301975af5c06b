"""Where: fixed windows, aligned stretches of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.lowlevel.time import Duration, DurationTypes, TimestampTypes
from headrace.sdk.windows.bounded import BoundedWindow, IntervalWindow
from headrace.sdk.windows.function import AssignContext, NonMergingWindowFn, offset_within, positive

_REMEMBERED = 20_000
"""Windows kept for reuse; they are much cheaper to look up than to make."""


class IntervalsBySize(dict[int, tuple[IntervalWindow]]):
    """Start in microseconds -> the window of one size that begins there; made on demand."""

    def __init__(self, size_us: int) -> None:
        super().__init__()
        self._size_us = size_us

    def __missing__(self, start_us: int) -> tuple[IntervalWindow]:
        if len(self) >= _REMEMBERED:
            self.clear()
        window = (IntervalWindow.of_micros(start_us, start_us + self._size_us),)
        self[start_us] = window
        return window

    def __reduce__(self) -> tuple[object, ...]:
        return IntervalsBySize, (self._size_us,)


# Without slots, so that what a subclass adds is pickled too.
@dataclass(frozen=True, init=False)
class FixedWindows(NonMergingWindowFn):
    """Each element is in the one window [n·size + offset, (n + 1)·size + offset) of its timestamp; in seconds.

    >>> FixedWindows(60, offset=15).assign_all([70_000_000], [None])
    [([15.0, 75.0),)]
    """

    size: Duration
    offset: Duration
    _windows: IntervalsBySize = field(repr=False, compare=False)

    def __init__(self, size: DurationTypes, offset: TimestampTypes | timedelta = 0) -> None:
        size = Duration(micros=positive("FixedWindows: size", Duration.of(size).micros))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "offset", offset_within(offset, size))
        object.__setattr__(self, "_windows", IntervalsBySize(size.micros))

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The window of the element's timestamp."""
        return list(self.assign_all([context.timestamp.micros], [None])[0])

    def assign_all(
        self,
        timestamps: Sequence[int],
        values: Sequence[object],
        windows: Sequence[BoundedWindow | None] | None = None,
    ) -> list[tuple[BoundedWindow, ...]]:
        """The one window of each timestamp; elements of a window share the object."""
        size, offset, made = self.size.micros, self.offset.micros, self._windows
        return [made[timestamp - (timestamp - offset) % size] for timestamp in timestamps]
