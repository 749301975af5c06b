"""Where: the stretches of event time whose elements all are in the same windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.frames import Frames
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows
from headrace.sdk.windows.coder import encode_interval

EXACT = 1 << 62
"""Timestamps nearer to the ends of time than this are not for arithmetic with 64 bits."""
_LEAST = 4
"""Timestamps in a stretch, on average, from which on it pays to look for stretches."""


class Buckets(Protocol):
    """Finds the bucket of a timestamp; a bucket is named by its start in microseconds UTC."""

    def start(self, timestamp: int) -> int:
        """The bucket of a timestamp."""

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """Whether `starts` may be asked for these timestamps, which are not none."""

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bucket of each timestamp; see `reaches`."""

    def code(self, start: int) -> bytes:
        """How a lifted payload names the bucket: the window's code, or that of an interval within its windows."""


def _are_exact(timestamps: NDArray[np.int64]) -> bool:
    return -EXACT < int(timestamps.min()) <= int(timestamps.max()) < EXACT


def buckets(windowing: Windowing) -> Buckets | None:
    """The buckets of a windowing; None if its windows are not made of any."""
    window_fn = windowing.window_fn
    if type(window_fn) is GlobalWindows:
        return GlobalBuckets(Frames(windowing))
    if type(window_fn) is FixedWindows:
        return FixedBuckets(window_fn, Frames(windowing))
    if type(window_fn) is SlidingWindows and window_fn.period < window_fn.size:
        return SlidingBuckets(window_fn)
    return None


def starts_of(found: Buckets, timestamps: Sequence[int]) -> Sequence[int]:
    """The bucket of each of some timestamps, whatever they are; the same object as often as it comes.

    >>> starts_of(buckets(Windowing.of(FixedWindows(10))), [12_000_000, MIN_TIMESTAMP])
    [10000000, -9223372036860000000]
    """
    times = np.fromiter(timestamps, np.int64, len(timestamps))
    if not len(times) or not found.reaches(times):
        return list(map(found.start, timestamps))
    distinct, places = np.unique(found.starts(times), return_inverse=True)
    return list(map(distinct.tolist().__getitem__, places.reshape(-1).tolist()))


def stretches_of(found: Buckets, timestamps: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """Stretches of timestamps in the same bucket: the bucket, the first place, the place behind the last.

    None where it changes so often that they do not pay, or where there is no arithmetic with 64 bits.

    >>> stretches_of(buckets(Windowing.of(FixedWindows(10))), [1_000_000] * 6 + [12_000_000] * 2)
    [(0, 0, 6), (10000000, 6, 8)]
    """
    times = np.asarray(timestamps, np.int64)
    if not len(times) or not found.reaches(times):
        return None
    starts = found.starts(times)
    changes = np.flatnonzero(starts[1:] != starts[:-1]) + 1
    if len(changes) * _LEAST > len(times):
        return None
    firsts = np.concatenate([[0], changes])
    return list(zip(starts[firsts].tolist(), firsts.tolist(), [*changes.tolist(), len(times)], strict=True))


class GlobalBuckets:
    """One bucket."""

    def __init__(self, frames: Frames) -> None:
        self._code = frames.of_window(GlobalWindow()).code

    def start(self, timestamp: int) -> int:
        """See `Buckets`."""
        return MIN_TIMESTAMP

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Buckets`. Elements without a time of their own are at the very beginning of time."""
        return True

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Buckets`."""
        return np.full(len(timestamps), MIN_TIMESTAMP, np.int64)

    def code(self, start: int) -> bytes:
        """See `Buckets`."""
        return self._code


class FixedBuckets:
    """The windows themselves."""

    def __init__(self, window_fn: FixedWindows, frames: Frames) -> None:
        self._size, self._offset = window_fn.size.micros, window_fn.offset.micros
        self._frames = frames

    def start(self, timestamp: int) -> int:
        """See `Buckets`."""
        return timestamp - (timestamp - self._offset) % self._size

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Buckets`."""
        return _are_exact(timestamps)

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Buckets`."""
        return timestamps - (timestamps - self._offset) % self._size

    def code(self, start: int) -> bytes:
        """See `Buckets`."""
        return self._frames.of_interval(start, start + self._size).code


class SlidingBuckets:
    """A period, cut in two where windows end within it.

    >>> split = SlidingBuckets(SlidingWindows(size=5, period=3))
    >>> split.starts(np.array([3_000_000, 4_999_999, 5_000_000])).tolist()
    [3000000, 3000000, 5000000]
    """

    def __init__(self, window_fn: SlidingWindows) -> None:
        self._period, self._offset = window_fn.period.micros, window_fn.offset.micros
        self._first = (window_fn.size.micros - 1) % self._period + 1

    def start(self, timestamp: int) -> int:
        """See `Buckets`."""
        behind = (timestamp - self._offset) % self._period
        return timestamp - behind + (0 if behind < self._first else self._first)

    def reaches(self, timestamps: NDArray[np.int64]) -> bool:
        """See `Buckets`."""
        return _are_exact(timestamps)

    def starts(self, timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Buckets`."""
        behind = (timestamps - self._offset) % self._period
        return timestamps - behind + np.where(behind < self._first, 0, self._first)

    def code(self, start: int) -> bytes:
        """See `Buckets`."""
        behind = (start - self._offset) % self._period
        end = start - behind + (self._period if behind else self._first)
        return encode_interval(max(start, MIN_TIMESTAMP), min(end, MAX_TIMESTAMP))
