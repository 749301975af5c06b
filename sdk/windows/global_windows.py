"""Where: the global window, for grouping without regard to event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.coder import Coder
from headrace.sdk.windows.bounded import BoundedWindow, GlobalWindow
from headrace.sdk.windows.coder import GlobalWindowCoder
from headrace.sdk.windows.function import AssignContext, NonMergingWindowFn


@dataclass(frozen=True, slots=True)
class GlobalWindows(NonMergingWindowFn):
    """Every element is in the one global window.

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
        """The global window, as often as there are elements."""
        return [(GlobalWindow(),)] * len(values)

    def get_window_coder(self) -> Coder:
        """No bytes at all."""
        return GlobalWindowCoder()
