"""What a shard of a gate stores: the newest view of each side window, and the elements that wait for one.

A view is kept while its window is reachable. Waiting elements hold the output watermark, by window.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TypeAlias, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.operators.side_inputs.gate_inputs import Message, SideWatermark
from headrace.sdk.operators.side_inputs.seen_views import SeenViews
from headrace.sdk.operators.side_inputs.window_mapping import SideWindows
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces

# First bytes of the names of cells; a byte with the number of the side input follows.
_REACHED = b"r"
"""Watermark of the side input."""
_VERSION = b"i"
"""Version of a window's view; the window's code follows."""
_DATA = b"v"
"""Values of the view; number and code follow as for the version."""
NOTHING = b""
"""Version of the view of a window that is known to be empty."""
_END = "end"
"""Tag of the timer at the end of time."""
FORMAT_VERSION = 1
"""Format version of the cells of a gate, those of `SideViewStore` included. Change it with the persisted fields."""
_RECORD = b"m"
"""First byte of the names of the cells with the record of a window's waiting elements; the window's code follows."""
_ELEMENTS = b"e"
"""First byte of the names of cells with elements; length and code of the window and a number follow."""

Element: TypeAlias = tuple[object, PaneInfo | None, int]
"""Value, pane, timestamp."""


class SideViewStore:
    """Views in the cells of a key.

    Args:
        windows: Windows of each side input, by its number.
        context: Context of the bundle and key.
    """

    def __init__(self, windows: Sequence[SideWindows], context: Context) -> None:
        self._windows = windows
        self._context = context
        self._reached: dict[int, int | None] = {}

    def take(self, number: int, message: Message, seen: SeenViews | None = None) -> None:
        """Store a message of a side input; a view replaces the previous view of its window, which `seen` may keep."""
        if isinstance(message, SideWatermark):
            self._set_reached(number, message.watermark)
            return
        namespace, name = self._windows[number].namespaces.of_code(message.code), _name(number, message.code)
        before = self._context.read(_VERSION + name)
        if before is None:
            self._context.set_timer(f"{number} {namespace.tag}", self._windows[number].expires_at(namespace))
        elif seen is not None and before != message.version:
            seen.keep(number, message.code, before, self._context.read(_DATA + name) or dumps([]))
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

    def version(self, number: int, namespace: WindowNamespace) -> bytes | None:
        """The version of a window's view; None if there is no view and the window may still have a pane."""
        found = self._context.read(_VERSION + _name(number, namespace.code))
        if found is None:
            reached = self._get_reached(number)
            if reached is not None and reached >= self._windows[number].ready_at(namespace):
                return NOTHING
        return found

    def values(self, number: int, namespace: WindowNamespace) -> list[object]:
        """The contents of a window, as a new list."""
        data = self._context.read(_DATA + _name(number, namespace.code))
        return [] if data is None else cast("list[object]", loads(data))

    def sweep(self, needed: Set[tuple[int, bytes]], waits: bool) -> None:
        """Delete the views of expired windows that no waiting element needs.

        Args:
            needed: Number of the side input and code of each window that waiting elements need.
            waits: Whether there are waiting elements.
        """
        for cell, _ in list(self._context.scan(_VERSION)):
            name = cell[1:]
            number, code = name[0], name[1:]
            windows = self._windows[number]
            expires = windows.expires_at(windows.namespaces.of_code(code))
            if expires <= self._context.watermark and (number, code) not in needed:
                self._context.write(_VERSION + name, None)
                self._context.write(_DATA + name, None)
        if self._context.watermark >= MAX_TIMESTAMP and not waits:
            for cell, _ in list(self._context.scan(_REACHED)):
                self._context.write(cell, None)


def _name(number: int, code: bytes) -> bytes:
    return bytes([number]) + code


class Waiting:
    """Waiting elements in the cells of a key: one cell for the elements of each bundle and window.

    Args:
        namespaces: Namespaces of the elements' windows.
        context: Context of the bundle and key.
    """

    def __init__(self, namespaces: WindowNamespaces, context: Context) -> None:
        self._namespaces = namespaces
        self._context = context

    def windows(self) -> list[WindowNamespace]:
        """The windows with waiting elements."""
        return [self._namespaces.of_code(cell[1:]) for cell, _ in self._context.scan(_RECORD)]

    def put(self, namespace: WindowNamespace, elements: Sequence[Element], watermark: int) -> None:
        """Store elements of a window; those that are late at `watermark` (microseconds UTC) hold no watermark."""
        count, hold = self._record(namespace)
        self._context.write(_cell(namespace, count), dumps(elements))
        timely = [timestamp for _, _, timestamp in elements if timestamp >= watermark]
        holds = [hold] if hold is not None else []
        if timely:
            hold = min(timely + holds)
            self._context.hold(hold, _tag(namespace))
        self._context.write(_RECORD + namespace.code, dumps((FORMAT_VERSION, count + 1, hold)))

    def take(self, namespace: WindowNamespace) -> list[Element]:
        """Remove and return the elements of a window, in the order of their arrival."""
        count, hold = self._record(namespace)
        elements: list[Element] = []
        for number in range(count):
            cell = _cell(namespace, number)
            data = self._context.read(cell)
            assert data is not None, f"elements that wait in {namespace.window} are stored in {cell!r}"
            elements += loads(data)
            self._context.write(cell, None)
        self._context.write(_RECORD + namespace.code, None)
        if hold is not None:
            self._context.release(_tag(namespace))
        return elements

    def _record(self, namespace: WindowNamespace) -> tuple[int, int | None]:
        """Number of cells with elements of a window, and its hold (microseconds UTC; None for no hold).

        Raises CheckpointError if the record has another format version.
        """
        data = self._context.read(_RECORD + namespace.code)
        if data is None:
            return 0, None
        version, count, hold = cast("tuple[int, int, int | None]", loads(data))
        if version != FORMAT_VERSION:
            raise CheckpointError(
                f"the record of elements that wait in {namespace.window} has format {version}, this release reads "
                f"{FORMAT_VERSION}; go on with the release that wrote the checkpoint"
            )
        return count, hold


def _cell(namespace: WindowNamespace, number: int) -> bytes:
    return _ELEMENTS + len(namespace.code).to_bytes(2, "big") + namespace.code + number.to_bytes(4, "big")


def _tag(namespace: WindowNamespace) -> str:
    return f"waiting {namespace.tag}"
