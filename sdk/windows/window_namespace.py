"""Where: a window with everything that a grouping derives from it once."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.coder import Coder
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow, GlobalWindowCoder, IntervalWindow, IntervalWindowCoder
from headrace.sdk.windows.coder import encode_interval

RECORD = b"w"
"""First byte of the names of the cells that hold a window's record; the window's code follows."""
_REMEMBERED = 20_000


class Frame(NamedTuple):
    """A window as a grouping works with it; times in microseconds UTC."""

    window: BoundedWindow
    code: bytes
    """The window as its coder encodes it: what tells windows apart."""
    cell: bytes
    """Name of the cell with its record."""
    tag: str
    """Name of its timers and its hold, readable: start and end."""
    end: int
    closes: int
    """The watermark at which it closes: its end and the allowed lateness."""

    @property
    def start(self) -> int:
        """Its first instant; the beginning of time for a window that does not say."""
        return self.window.start_us if isinstance(self.window, IntervalWindow) else MIN_TIMESTAMP

    @property
    def last(self) -> int:
        """Its last instant."""
        return self.end - 1


class Frames:
    """Makes frames, and remembers the latest."""

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing
        self._coder: Coder = windowing.window_fn.get_window_coder()
        self._intervals = isinstance(self._coder, IntervalWindowCoder)
        self._global = isinstance(self._coder, GlobalWindowCoder)
        self._by_code: dict[bytes, Frame] = {}
        self._by_tag: dict[str, Frame] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Frames, (self._windowing,)

    @property
    def are_global(self) -> bool:
        """Whether there is but one window, that of all time."""
        return self._global

    def of_window(self, window: BoundedWindow) -> Frame:
        """The frame of a window."""
        if self._intervals and isinstance(window, IntervalWindow):
            return self.of_interval(window.start_us, window.end_us, window)
        code = self._coder.encode(window)
        found = self._by_code.get(code)
        if found is None:
            found = self._make(window, code, "global" if self._global else code.hex(), window.end_us)
        return found

    def of_interval(self, start_us: int, end_us: int, window: IntervalWindow | None = None) -> Frame:
        """The frame of an interval window."""
        window = window or IntervalWindow.of_micros(start_us, end_us)
        start_us, end_us = window.start_us, window.end_us
        code = encode_interval(start_us, end_us)
        found = self._by_code.get(code)
        if found is None:
            found = self._make(window, code, f"{start_us}:{end_us}", end_us)
        return found

    def of_code(self, code: bytes) -> Frame:
        """The frame of an encoded window."""
        found = self._by_code.get(code)
        if found is None:
            window = self._coder.decode(code)
            assert isinstance(window, BoundedWindow), f"{self._coder} decodes {code!r} to {window!r}, not to a window"
            found = self.of_window(window)
        return found

    def of_tag(self, tag: str) -> Frame:
        """The frame whose timers and hold have this name."""
        found = self._by_tag.get(tag)
        if found is None:
            if self._intervals:
                start_us, _, end_us = tag.partition(":")
                found = self.of_interval(int(start_us), int(end_us))
            else:
                found = self.of_code(b"" if self._global else bytes.fromhex(tag))
        return found

    def _make(self, window: BoundedWindow, code: bytes, tag: str, end: int) -> Frame:
        if len(self._by_code) >= _REMEMBERED:
            self._by_code.clear()
            self._by_tag.clear()
        frame = Frame(window, code, RECORD + code, tag, end, self._windowing.closes_at(end))
        self._by_code[code] = self._by_tag[tag] = frame
        return frame
