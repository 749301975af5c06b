"""When: panes as columns, as a grouping puts them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.model.panes import PaneInfo, pane_of_window
from headrace.sdk.windows import BoundedWindow, GlobalWindow, IntervalWindow


@stored_as("PaneShape")
@dataclass(frozen=True, slots=True)
class Fired:
    """(value, window, pane), the form FIRED of a stage's elements.

    >>> from headrace.sdk.expressions.element_schema import Single
    >>> from headrace.sdk.model.panes import PANE_INFO_UNKNOWN
    >>> shape = Fired(Single(0), 1, 2, PANE_INFO_UNKNOWN)
    >>> shape.values(pa.record_batch({"total": [7], "start": [0], "end": [60_000_000]}))[0][:2]
    (7, [0.0, 60.0))
    """

    value: ValueSchema
    start: int
    """Column with the window's start, microseconds UTC."""
    end: int
    """Column with the window's end, microseconds UTC."""
    pane: PaneInfo | int
    """The pane of all rows, or the column with panes as numbers; see `pane_codes`."""
    in_global: bool = False
    """Whether the window is the global one."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        windows, pane = self.windows(table), self.pane
        if isinstance(pane, int):
            return list(zip(self.value.values(table), windows, panes_of(numbers_in(table.column(pane))), strict=True))
        return [(value, window, pane) for value, window in zip(self.value.values(table), windows, strict=True)]

    def windows(self, table: pa.RecordBatch) -> list[BoundedWindow]:
        """The window of each row; equal windows are the same object."""
        if self.in_global:
            return [GlobalWindow()] * table.num_rows
        bounds = np.stack([numbers_in(table.column(column)) for column in (self.start, self.end)], axis=1)
        distinct, indices = np.unique(bounds, axis=0, return_inverse=True)
        windows = [IntervalWindow.of_micros(start, end) for start, end in cast("list[list[int]]", distinct.tolist())]
        return [windows[place] for place in indices.reshape(-1).tolist()]

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.value if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        panes = (self.pane,) if isinstance(self.pane, int) else ()
        return (*self.value.columns(), self.start, self.end, *panes)

    def moved(self, places: Mapping[int, int]) -> Fired:
        """See `ValueSchema`."""
        pane = places[self.pane] if isinstance(self.pane, int) else self.pane
        value = self.value.moved(places)
        return replace(self, value=value, start=places[self.start], end=places[self.end], pane=pane)


_INDEX_BITS = 30
"""Bits of the index of a pane."""
_INDEX = (1 << _INDEX_BITS) - 1


def pane_codes(index: Numbers, nonspeculative: Numbers, timing: Numbers, is_last: NDArray[np.bool_]) -> Numbers:
    """Panes as numbers; a pane is the first of its window if its index is 0.

    >>> panes_of(pane_codes(*np.array([[0, 1], [-1, 0], [0, 1]]), np.array([False, True])))[1]
    PaneInfo(is_first=False, is_last=True, timing=<PaneInfoTiming.ON_TIME: 1>, index=1, nonspeculative_index=0, ...)
    """
    return ((nonspeculative + 1 << _INDEX_BITS | index) << 2 | timing) << 1 | is_last.astype(np.int64)


def panes_of(codes: Numbers) -> list[PaneInfo]:
    """The panes of numbers made by `pane_codes`; equal panes are the same object."""
    distinct, indices = np.unique(codes, return_inverse=True)
    panes = list(map(_pane_of, distinct.tolist()))
    return [panes[place] for place in indices.reshape(-1).tolist()]


def index_and_timing(shape: Fired, table: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Index and timing of the pane of each row."""
    if isinstance(shape.pane, int):
        codes = cast(Numbers, numbers_in(table.column(shape.pane)))
        return codes >> 3 & _INDEX, codes >> 1 & 3
    return np.full(table.num_rows, shape.pane.index), np.full(table.num_rows, int(shape.pane.timing))


def _pane_of(code: int) -> PaneInfo:
    index, nonspeculative = code >> 3 & _INDEX, (code >> 3 + _INDEX_BITS) - 1
    return pane_of_window(index, nonspeculative, code >> 1 & 3, bool(code & 1))
