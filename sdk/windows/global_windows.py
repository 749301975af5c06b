"""Where: the global window, for grouping without event-time windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.stored_names import named
from headrace.sdk.windows.bounded import BoundedWindow, GlobalWindow
from headrace.sdk.windows.coder import GlobalWindowCoder
from headrace.sdk.windows.window_fn import AssignContext, NonMergingWindowFn

_ONLY: tuple[BoundedWindow, ...] = (GlobalWindow(),)
"""The windows of every element. They are one tuple, as steps know windows that they have seen by its identity."""


@named("GlobalWindows")
@dataclass(frozen=True, slots=True)
class GlobalWindows(NonMergingWindowFn):
    """Every element is in the global window.

    >>> GlobalWindows().assign_all([1, 2], ["a", "b"])
    [(GlobalWindow,), (GlobalWindow,)]
    """

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        """The global window."""
        return [GlobalWindow()]

    def assign_all(
        self,
        timestamps: Sequence[int],
        values: Sequence[object],
        windows: Sequence[BoundedWindow | None] | None = None,
    ) -> list[tuple[BoundedWindow, ...]]:
        """The global window, once for each element."""
        return [_ONLY] * len(values)

    def get_window_coder(self) -> Coder:
        """The coder that encodes the global window as no bytes."""
        return GlobalWindowCoder()
