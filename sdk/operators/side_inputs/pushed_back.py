"""When: elements that wait for their side inputs, by window, with a hold on the output watermark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces

FORMAT_VERSION = 1
"""Format version of the cells of a gate, those of `SideViewStore` included. Change it with the persisted fields."""
_RECORD = b"m"
"""First byte of the names of the cells with the record of a window's waiting elements; the window's code follows."""
_ELEMENTS = b"e"
"""First byte of the names of cells with elements; length and code of the window and a number follow."""

Element: TypeAlias = tuple[object, PaneInfo | None, int]
"""Value, pane, timestamp."""


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
