"""Where: windows, which are finite intervals of event time, and their encoding (Streaming 102, figure 3).

The source is Beam's `transforms.window`. Windows are encoded as bytes that are the same in every process.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, Self

from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp, TimestampTypes


@stored_as("BoundedWindow")
class BoundedWindow:
    """A window of event time with an end. Subclass it for windows of your own, together with a coder for them.

    Two windows are the same window if the coder of their `WindowFn` encodes them as the same bytes.

    >>> from headrace.transforms.window import IntervalWindow
    >>> window = IntervalWindow(0, 60)
    >>> isinstance(window, BoundedWindow), window.end, window.max_timestamp()
    (True, Timestamp(60), Timestamp(59.999999))
    """

    def __init__(self, end: TimestampTypes) -> None:
        self._end = Timestamp.of(end)

    @property
    def end(self) -> Timestamp:
        """The first instant after the window."""
        return self._end

    @property
    def end_us(self) -> int:
        """`end` in microseconds UTC."""
        return self.max_timestamp().micros + 1

    def max_timestamp(self) -> Timestamp:
        """The last instant of the window, a microsecond before its end."""
        return self.end.predecessor()


@dataclass(frozen=True, slots=True, order=True, init=False, repr=False)
class IntervalWindow(BoundedWindow):
    """The half-open interval from `start` to `end`, both in seconds or as timestamps. Ordered by end, then start.

    >>> IntervalWindow(0, 10), IntervalWindow(0, 10).max_timestamp()
    ([0.0, 10.0), Timestamp(9.999999))
    """

    end_us: int
    """Microseconds UTC."""
    start_us: int
    """Microseconds UTC."""

    def __init__(self, start: TimestampTypes, end: TimestampTypes) -> None:
        _place(self, Timestamp.of(start).micros, Timestamp.of(end).micros)

    @classmethod
    def of_micros(cls, start_us: int, end_us: int) -> Self:
        """The window between two times in microseconds UTC; times beyond the limits of timestamps are moved to them."""
        window = cls.__new__(cls)
        _place(window, start_us, end_us)
        return window

    @property
    def start(self) -> Timestamp:
        """The first instant of the window."""
        return _instant(self.start_us)

    @property
    def end(self) -> Timestamp:
        """The first instant after the window."""
        return _instant(self.end_us)

    def max_timestamp(self) -> Timestamp:
        """The last instant of the window, a microsecond before its end."""
        return Timestamp(micros=self.end_us - 1)

    def intersects(self, other: IntervalWindow) -> bool:
        """Whether the two have an instant in common.

        >>> IntervalWindow(0, 10).intersects(IntervalWindow(9, 12))
        True
        >>> IntervalWindow(0, 10).intersects(IntervalWindow(10, 12))
        False
        """
        return other.start_us < self.end_us and self.start_us < other.end_us

    def union(self, other: IntervalWindow) -> IntervalWindow:
        """The smallest window that contains both windows."""
        return IntervalWindow.of_micros(min(self.start_us, other.start_us), max(self.end_us, other.end_us))

    def __repr__(self) -> str:
        return f"[{float(self.start)}, {float(self.end)})"


stored_as("IntervalWindow", IntervalWindow.of_micros, attrgetter("start_us", "end_us"))(IntervalWindow)
_instant = lru_cache(1_000)(Timestamp.of_micros)
"""Cache of timestamps: many elements of a bundle read the bounds of the same few windows."""


def _place(window: IntervalWindow, start_us: int, end_us: int) -> None:
    object.__setattr__(window, "start_us", start_us if start_us > MIN_TIMESTAMP else MIN_TIMESTAMP)
    object.__setattr__(window, "end_us", end_us if end_us < MAX_TIMESTAMP else MAX_TIMESTAMP)


_END = Timestamp(micros=END_OF_GLOBAL_WINDOW)


class GlobalWindow(BoundedWindow):
    """The one window that holds all of event time; `GlobalWindow()` is always the same object.

    >>> GlobalWindow() is GlobalWindow(), GlobalWindow()
    (True, GlobalWindow)
    """

    _only: ClassVar[GlobalWindow | None] = None

    def __new__(cls) -> GlobalWindow:
        """Return the only instance."""
        if GlobalWindow._only is None:
            GlobalWindow._only = super().__new__(cls)
        return GlobalWindow._only

    def __init__(self) -> None:
        super().__init__(_END)

    @property
    def start(self) -> Timestamp:
        """The first instant of the window: `MIN_TIMESTAMP`."""
        return Timestamp(micros=MIN_TIMESTAMP)

    def __repr__(self) -> str:
        return "GlobalWindow"


stored_as("GlobalWindow", GlobalWindow, lambda _: ())(GlobalWindow)


_PAIR = struct.Struct(">QQ")
_SHIFT = 1 << 63
"""Makes signed microseconds unsigned, so that bytes are ordered as times are."""


def encode_interval(start_us: int, end_us: int) -> bytes:
    """Encode an interval of event time (microseconds UTC) as sixteen bytes."""
    return _PAIR.pack(start_us + _SHIFT, end_us + _SHIFT)


def decode_interval(code: bytes) -> tuple[int, int]:
    """Start and end of an encoded interval, microseconds.

    >>> decode_interval(encode_interval(-1, 2))
    (-1, 2)
    """
    start, end = _PAIR.unpack(code)
    return start - _SHIFT, end - _SHIFT


@named("IntervalWindowCoder")
class IntervalWindowCoder:
    """Sixteen bytes: start, then end. Ordered as the windows' starts are.

    >>> coder = IntervalWindowCoder()
    >>> coder.decode(coder.encode(IntervalWindow(-5, 10)))
    [-5.0, 10.0)
    """

    def encode(self, value: object) -> bytes:
        """Encode an interval window. Raises TypeError if `value` is not an `IntervalWindow`."""
        if not isinstance(value, IntervalWindow):
            raise TypeError(
                f"window {value!r:.80} is a {type(value).__name__}, not an IntervalWindow; "
                "give the window function a get_window_coder() for its windows"
            )
        return encode_interval(value.start_us, value.end_us)

    def decode(self, data: bytes) -> IntervalWindow:
        """Decode an interval window."""
        return IntervalWindow.of_micros(*decode_interval(data))

    def is_deterministic(self) -> bool:
        """Return True: equal windows have equal bytes."""
        return True


@named("GlobalWindowCoder")
class GlobalWindowCoder:
    """Encodes the global window as no bytes, because there is only one."""

    def encode(self, value: object) -> bytes:
        """Return no bytes."""
        return b""

    def decode(self, data: bytes) -> GlobalWindow:
        """Return the global window."""
        return GlobalWindow()

    def is_deterministic(self) -> bool:
        """Return True: equal windows have equal bytes."""
        return True
