"""When: panes as columns, as a grouping puts them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columns import Shape
from headrace.sdk.panes import PaneInfo
from headrace.sdk.windows import BoundedWindow, GlobalWindow, IntervalWindow


@dataclass(frozen=True, slots=True)
class Fired:
    """(value, window, pane), the form FIRED of a stage's elements.

    >>> from headrace.sdk.columns.shape import Single
    >>> from headrace.sdk.panes import PANE_INFO_UNKNOWN
    >>> shape = Fired(Single(0), 1, 2, PANE_INFO_UNKNOWN)
    >>> shape.values(pa.record_batch({"total": [7], "start": [0], "end": [60_000_000]}))[0][:2]
    (7, [0.0, 60.0))
    """

    value: Shape
    start: int
    """Column with the window's start, microseconds UTC."""
    end: int
    """Column with the window's end, microseconds UTC."""
    pane: PaneInfo
    in_global: bool = False
    """Whether the window is the global one."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        windows, pane = self.windows(table), self.pane
        return [(value, window, pane) for value, window in zip(self.value.values(table), windows, strict=True)]

    def windows(self, table: pa.RecordBatch) -> list[BoundedWindow]:
        """The window of each row; equal ones are the same object."""
        if self.in_global:
            return [GlobalWindow()] * table.num_rows
        bounds = np.stack([table.column(column).to_numpy() for column in (self.start, self.end)], axis=1)
        distinct, places = np.unique(bounds, axis=0, return_inverse=True)
        made = [IntervalWindow.of_micros(start, end) for start, end in cast("list[list[int]]", distinct.tolist())]
        return [made[place] for place in places.reshape(-1).tolist()]

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return self.value if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return (*self.value.columns(), self.start, self.end)

    def moved(self, places: Mapping[int, int]) -> Fired:
        """See `Shape`."""
        return replace(self, value=self.value.moved(places), start=places[self.start], end=places[self.end])
