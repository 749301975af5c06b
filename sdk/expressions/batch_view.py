"""What: a batch of columns as a function on columns sees it, and where such a function puts what it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import numbers_in
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columns import ColumnBatch, Shape, Times
from headrace.sdk.columns.shape import Fields, FieldsKind, Instant, Single, Tuple
from headrace.sdk.ptransform import label_of


class Unable(Exception):
    """Columns do not do here: the elements are taken one by one, which gives their results or names the one that fails.

    The message says why, for people who ask which way a step takes.
    """


def _without_panes() -> tuple[Numbers, Numbers]:
    raise Unable("the panes are no columns")


@dataclass
class View:
    """Elements as columns."""

    table: pa.RecordBatch
    times: Times
    shape: Shape
    """Of the elements."""
    windows: Callable[[], tuple[Times, Times]]
    """Start and end of each one's window, microseconds UTC. Raises `Unable`."""
    panes: Callable[[], tuple[Numbers, Numbers]] = _without_panes
    """Index and timing of each one's pane. Raises `Unable`."""
    _made: list[pa.Array] = field(default_factory=list)

    def column(self, shape: Shape) -> pa.Array:
        """The column of a shape that is one. Raises `Unable`."""
        if not isinstance(shape, (Single, Instant)):
            raise Unable(f"{type(shape).__name__} is made of several columns")
        width = self.table.num_columns
        column: pa.Array = (
            self._made[shape.column - width] if shape.column >= width else self.table.column(shape.column)
        )
        return column

    def shape_of(self, function: object) -> Shape:
        """The shape of what a function of the elements gives. Raises `Unable`, or whatever Arrow raises."""
        if not isinstance(function, ColumnFunction):
            raise Unable(f"{label_of(function)} is a function of one element")
        return function.on_columns(self)

    def pair(self) -> tuple[Shape, Shape]:
        """The shapes of both parts of elements that are pairs. Raises `Unable`."""
        shapes = self.items(self.shape)
        if len(shapes) != 2:
            raise Unable(f"the elements are tuples of {len(shapes)}")
        return shapes[0], shapes[1]

    @staticmethod
    def items(shape: Shape) -> tuple[Shape, ...]:
        """The shapes of the items of tuples, also of named ones. Raises `Unable`."""
        if isinstance(shape, Tuple) or (isinstance(shape, Fields) and shape.kind is FieldsKind.TUPLE):
            return shape.shapes
        raise Unable("the elements are no tuples")

    def nothing(self) -> Shape:
        """The shape of None for every element."""
        return Single(self.add(pa.nulls(len(self.times))))

    def add(self, column: pa.Array) -> int:
        """Keep a new column; its place."""
        self._made.append(column)
        place: int = self.table.num_columns + len(self._made) - 1
        return place

    def result(self, shape: Shape) -> ColumnBatch:
        """A batch of a shape, of old and new columns, without those that it does not need."""
        columns = [*self.table.columns, *self._made]
        needed = list(dict.fromkeys(shape.columns()))
        if not needed:
            # Without a column, a table would not know how many rows it has.
            return ColumnBatch(pa.record_batch([pa.nulls(len(self.times))], ["0"]), self.times, shape)
        table = pa.RecordBatch.from_arrays([columns[place] for place in needed], list(map(str, needed)))
        return ColumnBatch(table, self.times, shape.moved({place: index for index, place in enumerate(needed)}))


@runtime_checkable
class ColumnFunction(Protocol):
    """A function of an element that can be computed for many at once."""

    def on_columns(self, view: View) -> Shape:
        """The shape of its results. Raises `Unable`, or whatever Arrow raises, where they might not be the same."""

    def column_parts(self) -> Sequence[Callable[..., object]]:
        """The functions that it calls; all of them must be functions on columns too."""


def obstacle(function: object) -> str | None:
    """Why a function can never be computed on columns; None if it can.

    >>> obstacle(len)
    'len is a function of one element'
    """
    if not isinstance(function, ColumnFunction):
        return f"{label_of(function)} is a function of one element"
    return next(filter(None, map(obstacle, function.column_parts())), None)


def filtered(batch: ColumnBatch, kept: pa.Array) -> ColumnBatch:
    """The rows for which a column of bools is true; it has no nulls."""
    count = kept.true_count
    if count == len(batch):
        return batch
    table, times = batch.table.filter(kept), batch.times[numbers_in(kept).astype(np.bool_)]
    return ColumnBatch(table, times, batch.shape)
