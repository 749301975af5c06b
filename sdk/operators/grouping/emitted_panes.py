"""How: the panes that a window has put out and may have to take back (Streaming 102, table 1).

They are kept apart from the window's record: a record is written with every bundle, these only when a pane is fired.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import NamedTuple

from headrace.lowlevel.computation import Context
from headrace.sdk.frames import Frame
from headrace.sdk.panes import PaneInfo, pane_info

_SHOWN = b"s"
"""First byte of the names of cells with panes; the window's code follows."""


class ShownPane(NamedTuple):
    """A pane that was put out."""

    value: object
    code: bytes
    """Its window; another than the one that takes it back if windows have merged since."""
    pane: PaneInfo
    timestamp: int
    """Microseconds UTC."""

    @property
    def taken_back(self) -> PaneInfo:
        """The `PaneInfo` of its retraction."""
        pane = self.pane
        return pane_info(pane.is_first, pane.is_last, pane.timing, pane.index, pane.nonspeculative_index, True)


class ShownPanes:
    """Keeps them for the windows of the key that a context is at."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def take(self, frame: Frame) -> list[ShownPane]:
        """The panes of a window, which has none afterwards."""
        cell = _SHOWN + frame.code
        data = self._context.read(cell)
        assert data is not None, f"window {frame.window} has panes in {cell!r}"
        self._context.write(cell, None)
        return [ShownPane(*fields) for fields in pickle.loads(data)]

    def put(self, frame: Frame, panes: Sequence[ShownPane]) -> None:
        """Make these the panes of a window."""
        data = pickle.dumps([tuple(pane) for pane in panes], pickle.HIGHEST_PROTOCOL)
        self._context.write(_SHOWN + frame.code, data)

    def forget(self, frame: Frame) -> None:
        """Free what a window's panes take up."""
        self._context.write(_SHOWN + frame.code, None)
