"""How: the panes that a window has emitted and may have to retract (Streaming 102, table 1).

They have a cell of their own, written only when a pane fires; the window's record is written with every bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.model.panes import PaneInfo, pane_info
from headrace.sdk.windows.window_namespace import WindowNamespace

_SHOWN = b"s"
"""First byte of the names of cells with panes; the window's code follows."""


class EmittedPane(NamedTuple):
    """A pane that a window has emitted."""

    value: object
    code: bytes
    """Code of the pane's window; another window retracts the pane if windows have merged since."""
    pane: PaneInfo
    timestamp: int
    """Microseconds UTC."""

    @property
    def retraction(self) -> PaneInfo:
        """The `PaneInfo` of the pane's retraction."""
        pane = self.pane
        return pane_info(pane.is_first, pane.is_last, pane.timing, pane.index, pane.nonspeculative_index, True)


class EmittedPanes:
    """Stores the emitted panes of the windows of a key; `context` is the key's."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def take(self, namespace: WindowNamespace) -> list[EmittedPane]:
        """Remove and return the panes of a window, which must have some."""
        cell = _SHOWN + namespace.code
        data = self._context.read(cell)
        assert data is not None, f"window {namespace.window} has panes in {cell!r}"
        self._context.write(cell, None)
        return [EmittedPane(*fields) for fields in loads(data)]

    def put(self, namespace: WindowNamespace, panes: Sequence[EmittedPane]) -> None:
        """Store the panes of a window in place of those stored before."""
        data = dumps([tuple(pane) for pane in panes])
        self._context.write(_SHOWN + namespace.code, data)

    def forget(self, namespace: WindowNamespace) -> None:
        """Delete the stored panes of a window."""
        self._context.write(_SHOWN + namespace.code, None)
