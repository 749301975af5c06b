"""Where: encoding of windows as bytes, which are the same in every process."""

from __future__ import annotations

import struct

from headrace.lowlevel.stored_names import named
from headrace.sdk.windows.bounded import GlobalWindow, IntervalWindow

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
