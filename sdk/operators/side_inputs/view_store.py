"""What one shard of a gate knows of its side inputs: the newest view of each window, kept while it can be looked at."""

from __future__ import annotations

import pickle
from collections.abc import Sequence, Set
from typing import cast

from headrace.lowlevel.computation import Context
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.frames import Frame
from headrace.sdk.sides.mapping import SideWindows
from headrace.sdk.sides.messages import Message, Reached

# First bytes of the names of cells; a byte with the number of the side input follows.
_REACHED = b"r"
"""How far the side input is."""
_VERSION = b"i"
"""Version of a window's view; the window's code follows."""
_DATA = b"v"
"""The view's values, under the same name."""
NOTHING = b""
"""Version of the view of a window that is known to be empty."""
_END = "end"
"""Tag of the timer at the end of time."""


class Shelf:
    """Views in the cells of the key that a context is at.

    Args:
        windows: Of each side input.
        context: Of the bundle.
    """

    def __init__(self, windows: Sequence[SideWindows], context: Context) -> None:
        self._windows = windows
        self._context = context
        self._reached: dict[int, int | None] = {}

    def take(self, number: int, message: Message) -> None:
        """Put what a side input says of itself where it is found; a view replaces the one before it."""
        if isinstance(message, Reached):
            self._set_reached(number, message.watermark)
            return
        frame, name = self._windows[number].frames.of_code(message.code), _name(number, message.code)
        if self._context.read(_VERSION + name) is None:
            self._context.set_timer(f"{number} {frame.tag}", self._windows[number].expires_at(frame))
        self._context.write(_VERSION + name, message.version)
        self._context.write(_DATA + name, message.data)

    def _set_reached(self, number: int, watermark: int) -> None:
        if self._get_reached(number) is None:
            self._context.set_timer(_END, MAX_TIMESTAMP)
        self._context.write(_REACHED + bytes([number]), b"%d" % watermark)
        self._reached[number] = watermark

    def _get_reached(self, number: int) -> int | None:
        if number not in self._reached:
            data = self._context.read(_REACHED + bytes([number]))
            self._reached[number] = None if data is None else int(data)
        return self._reached[number]

    def version(self, number: int, frame: Frame) -> bytes | None:
        """The version of a window's view; None if nothing is known of the window yet."""
        found = self._context.read(_VERSION + _name(number, frame.code))
        if found is None:
            reached = self._get_reached(number)
            if reached is not None and reached >= self._windows[number].ready_at(frame):
                return NOTHING
        return found

    def values(self, number: int, frame: Frame) -> list[object]:
        """What a window holds, in a list of its own."""
        data = self._context.read(_DATA + _name(number, frame.code))
        return [] if data is None else cast("list[object]", pickle.loads(data))

    def sweep(self, needed: Set[tuple[int, bytes]], waits: bool) -> None:
        """Free what cannot be looked at any more.

        Args:
            needed: Side input and code of the windows that waiting elements will look at.
            waits: Whether there are waiting elements.
        """
        for cell, _ in list(self._context.scan(_VERSION)):
            name = cell[1:]
            number, code = name[0], name[1:]
            windows = self._windows[number]
            expires = windows.expires_at(windows.frames.of_code(code))
            if expires <= self._context.watermark and (number, code) not in needed:
                self._context.write(_VERSION + name, None)
                self._context.write(_DATA + name, None)
        if self._context.watermark >= MAX_TIMESTAMP and not waits:
            for cell, _ in list(self._context.scan(_REACHED)):
                self._context.write(cell, None)


def _name(number: int, code: bytes) -> bytes:
    return bytes([number]) + code
