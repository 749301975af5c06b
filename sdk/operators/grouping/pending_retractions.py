"""How: retractions that came before the elements that they retract, until these come or their window closes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.operators.grouping.window_assignment import WindowInput
from headrace.sdk.operators.grouping.window_contents import matched
from headrace.sdk.windows.window_namespace import WindowNamespace, closing_tag

_PENDING = b"u"
"""First byte of the names of the cells with the values; the code of the window in which they arrived follows."""


class PendingRetractions:
    """The values of a key whose retractions wait for them, by the window in which they arrived.

    A cell that is not empty has a timer at the closing of its window.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, namespace: WindowNamespace, values: Iterable[object]) -> None:
        """Let retractions of values wait."""
        self._write(namespace, [*self._read(namespace), *values])

    def cancel(self, arrival: WindowInput) -> tuple[WindowInput, int]:
        """The elements of a window without those that retractions wait for, and how many these are."""
        pending = self._read(arrival.namespace)
        if not pending:
            return arrival, 0
        kept, still_pending = matched(arrival.items, pending)
        if cancelled := len(arrival.items) - len(kept):
            self._write(arrival.namespace, still_pending)
        items, times = [arrival.items[at] for at in kept], arrival.timestamps
        times = None if times is None else [times[at] for at in kept]
        lost = max(0, arrival.lost - cancelled)
        return replace(arrival, items=items, elements=len(items), lost=lost, timestamps=times), cancelled

    def close(self, namespace: WindowNamespace) -> None:
        """Delete the values of a window that has closed."""
        self._context.write(_cell(namespace), None)

    def _read(self, namespace: WindowNamespace) -> list[object]:
        data = self._context.read(_cell(namespace))
        return [] if data is None else cast("list[object]", loads(data))

    def _write(self, namespace: WindowNamespace, values: list[object]) -> None:
        tag = closing_tag(namespace.tag)
        if values:
            self._context.write(_cell(namespace), dumps(values))
            self._context.set_timer(tag, namespace.closes)
        else:
            self._context.write(_cell(namespace), None)
            self._context.delete_timer(tag)


def _cell(namespace: WindowNamespace) -> bytes:
    return _PENDING + namespace.code
