"""Elements that wait for their side inputs, by window, with a hold that keeps the output watermark at them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TypeAlias, cast

from headrace.lowlevel.computation import Context
from headrace.lowlevel.errors import CheckpointError
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.panes import PaneInfo

FORMAT_VERSION = 1
"""Of the cells of a gate, those of its `Shelf` among them. Change it with what they persist."""
_RECORD = b"m"
"""First byte of the names of the cells that say of a window what waits in it; its code follows."""
_ELEMENTS = b"e"
"""First byte of the names of cells with elements; length and code of the window and a number follow."""

Element: TypeAlias = tuple[object, PaneInfo | None, int]
"""Value, pane, timestamp."""


class Waiting:
    """Waiting elements in the cells of the key that a context is at: those of each bundle and window in a cell.

    Args:
        frames: Of the elements' windows.
        context: Of the bundle.
    """

    def __init__(self, frames: Frames, context: Context) -> None:
        self._frames = frames
        self._context = context

    def windows(self) -> list[Frame]:
        """The windows with waiting elements."""
        return [self._frames.of_code(cell[1:]) for cell, _ in self._context.scan(_RECORD)]

    def put(self, frame: Frame, elements: Sequence[Element], watermark: int) -> None:
        """Let elements of a window wait. Those that are late for `watermark` already keep nothing back."""
        count, hold = self._record(frame)
        self._context.write(_cell(frame, count), pickle.dumps(elements, pickle.HIGHEST_PROTOCOL))
        timely = [timestamp for _, _, timestamp in elements if timestamp >= watermark]
        holds = [hold] if hold is not None else []
        if timely:
            hold = min(timely + holds)
            self._context.hold(hold, _tag(frame))
        self._context.write(_RECORD + frame.code, pickle.dumps((FORMAT_VERSION, count + 1, hold)))

    def take(self, frame: Frame) -> list[Element]:
        """Let the elements of a window go, in the order in which they came."""
        count, hold = self._record(frame)
        elements: list[Element] = []
        for number in range(count):
            cell = _cell(frame, number)
            data = self._context.read(cell)
            assert data is not None, f"elements that wait in {frame.window} are stored in {cell!r}"
            elements += pickle.loads(data)
            self._context.write(cell, None)
        self._context.write(_RECORD + frame.code, None)
        if hold is not None:
            self._context.release(_tag(frame))
        return elements

    def _record(self, frame: Frame) -> tuple[int, int | None]:
        """Number of cells with elements of a window, and its hold in microseconds UTC."""
        data = self._context.read(_RECORD + frame.code)
        if data is None:
            return 0, None
        version, count, hold = cast("tuple[int, int, int | None]", pickle.loads(data))
        if version != FORMAT_VERSION:
            raise CheckpointError(
                f"the record of elements that wait in {frame.window} has format {version}, this release reads "
                f"{FORMAT_VERSION}; go on with the release that wrote the checkpoint"
            )
        return count, hold


def _cell(frame: Frame, number: int) -> bytes:
    return _ELEMENTS + len(frame.code).to_bytes(2, "big") + frame.code + number.to_bytes(4, "big")


def _tag(frame: Frame) -> str:
    return f"waiting {frame.tag}"
