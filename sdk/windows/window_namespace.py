"""Where: a window with the names that it has in state: its code, its cell, and the tags of its timers.

A grouping has timers of windows alone, whose tag is that of the window: `0:60000000` for an interval in microseconds
UTC, `global`, or the code of any other window in hexadecimal digits. A stateful `DoFn` has two kinds: `u` and the
window's tag for the closing of the window; `t`, the window's tag, a space, the length of the timer's name, a colon, the
name and the dynamic tag for a timer of user code. At one instant, that of the closing fires last.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.windows import BoundedWindow, GlobalWindow, GlobalWindowCoder, IntervalWindow, IntervalWindowCoder
from headrace.sdk.windows.bounded import encode_interval
from headrace.sdk.windows.windowing import Windowing

RECORD = b"w"
"""First byte of the names of the cells that hold a window's record; the window's code follows."""
GLOBAL = "global"
"""Tag of the global window."""
_TIMER = "t"
_CLOSING = "u"
_REMEMBERED = 20_000
_closing = attrgetter("closes")


class TimerTag(NamedTuple):
    """The parts of a timer's tag."""

    window: str
    """Tag of the window."""
    name: str | None = None
    """Name of a timer of user code; None for a timer of the window itself."""
    dynamic_tag: str = ""
    closing: bool = False
    """Whether the timer waits for the closing of a window of a `DoFn`."""

    @classmethod
    def parse(cls, tag: str) -> TimerTag:
        """Parse a tag that a grouping or a stateful `DoFn` has set.

        >>> TimerTag.parse("t0:60000000 4:idlered")
        TimerTag(window='0:60000000', name='idle', dynamic_tag='red', closing=False)
        >>> TimerTag.parse("uglobal")
        TimerTag(window='global', name=None, dynamic_tag='', closing=True)
        """
        if tag.startswith(_CLOSING):
            return cls(tag[len(_CLOSING) :], closing=True)
        window, space, rest = tag[len(_TIMER) :].partition(" ")
        if not (tag.startswith(_TIMER) and space):
            return cls(tag)
        length, _, names = rest.partition(":")
        return cls(window, names[: int(length)], names[int(length) :])

    def interval(self) -> tuple[int, int] | None:
        """Start and end of the window, microseconds UTC; None if the window is not an interval.

        >>> TimerTag.parse("-5:60000000").interval()
        (-5, 60000000)
        """
        start, colon, end = self.window.partition(":")
        return (int(start), int(end)) if colon else None


def interval_tag(start: int, end: int) -> str:
    """The tag of an interval window, from its start and end in microseconds UTC."""
    return f"{start}:{end}"


def closing_tag(window: str) -> str:
    """The tag of the timer that waits for the closing of a `DoFn`'s window, from the tag of the window."""
    return _CLOSING + window


def user_timer_prefix(window: str) -> str:
    """The prefix of the tags of user timers in a window; `user_timer_suffix` follows."""
    return f"{_TIMER}{window} "


def user_timer_suffix(name: str, dynamic_tag: str = "") -> str:
    """The suffix of the tag of a user timer, after `user_timer_prefix`.

    >>> TimerTag.parse(user_timer_prefix("global") + user_timer_suffix("a b: c", "d"))
    TimerTag(window='global', name='a b: c', dynamic_tag='d', closing=False)
    """
    return f"{len(name)}:{name}{dynamic_tag}"


class WindowNamespace(NamedTuple):
    """A window with its names in state; times are microseconds UTC."""

    window: BoundedWindow
    code: bytes
    """The encoded window; distinct windows have distinct codes."""
    cell: bytes
    """Name of the cell with its record."""
    tag: str
    """Readable name of the window's timers and hold: start and end of an interval."""
    end: int
    closes: int
    """The watermark at which the window closes: its end plus the allowed lateness."""

    @property
    def start(self) -> int:
        """The first instant of the window; `MIN_TIMESTAMP` for a window that is not an interval."""
        return self.window.start_us if isinstance(self.window, IntervalWindow) else MIN_TIMESTAMP

    @property
    def last(self) -> int:
        """The last instant of the window."""
        return self.end - 1


class WindowNamespaces:
    """Creates the namespaces of a windowing's windows, and caches them."""

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing
        self._coder: Coder = windowing.window_fn.get_window_coder()
        self._intervals = isinstance(self._coder, IntervalWindowCoder)
        self._global = isinstance(self._coder, GlobalWindowCoder)
        self._by_code: dict[bytes, WindowNamespace] = {}
        self._by_tag: dict[str, WindowNamespace] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return WindowNamespaces, (self._windowing,)

    @property
    def are_global(self) -> bool:
        """Whether the only window is the global window."""
        return self._global

    def of_window(self, window: BoundedWindow) -> WindowNamespace:
        """The namespace of a window."""
        if self._intervals and isinstance(window, IntervalWindow):
            return self.of_interval(window.start_us, window.end_us, window)
        code = self._coder.encode(window)
        found = self._by_code.get(code)
        if found is None:
            found = self._make(window, code, GLOBAL if self._global else code.hex(), window.end_us)
        return found

    def of_last(self, windows: Sequence[BoundedWindow]) -> WindowNamespace:
        """The namespace of that of several windows which closes last: an element in all of them is late with it."""
        return max(map(self.of_window, windows), key=_closing)

    def of_interval(self, start_us: int, end_us: int, window: IntervalWindow | None = None) -> WindowNamespace:
        """The namespace of an interval window."""
        window = window or IntervalWindow.of_micros(start_us, end_us)
        start_us, end_us = window.start_us, window.end_us
        code = encode_interval(start_us, end_us)
        found = self._by_code.get(code)
        if found is None:
            found = self._make(window, code, interval_tag(start_us, end_us), end_us)
        return found

    def of_bounds(self, start_us: int, end_us: int) -> WindowNamespace:
        """The namespace of the global window if that is the only one, else that of an interval window."""
        return self.of_window(GlobalWindow()) if self._global else self.of_interval(start_us, end_us)

    def of_code(self, code: bytes) -> WindowNamespace:
        """The namespace of an encoded window."""
        found = self._by_code.get(code)
        if found is None:
            window = self._coder.decode(code)
            assert isinstance(window, BoundedWindow), f"{self._coder} decodes {code!r} to {window!r}, not to a window"
            found = self.of_window(window)
        return found

    def of_tag(self, tag: str) -> WindowNamespace:
        """The namespace of a window, from the tag of its timers and its hold."""
        found = self._by_tag.get(tag)
        if found is None:
            interval = TimerTag(tag).interval() if self._intervals else None
            if interval is not None:
                found = self.of_interval(*interval)
            else:
                found = self.of_code(b"" if self._global else bytes.fromhex(tag))
        return found

    def _make(self, window: BoundedWindow, code: bytes, tag: str, end: int) -> WindowNamespace:
        if len(self._by_code) >= _REMEMBERED:
            self._by_code.clear()
            self._by_tag.clear()
        namespace = WindowNamespace(window, code, RECORD + code, tag, end, self._windowing.closes_at(end))
        self._by_code[code] = self._by_tag[tag] = namespace
        return namespace
