"""What: a batch of columns, as functions on columns read it and add results to it.

Functions that make pairs of elements and elements of pairs take whole columns, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.column_batch import ColumnBatch, Times, ValueSchema
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Instant, Single, Tuple, pair
from headrace.sdk.model.labels import place_of


class Unable(Exception):
    """Columns cannot be computed; the elements are processed one by one, which gives results or names a bad element.

    The message says why; it is part of a step's `ExecutionStrategy`.
    """


def _without_panes() -> tuple[Numbers, Numbers]:
    raise Unable("the panes are no columns")


@dataclass
class BatchView:
    """Elements as columns."""

    table: pa.RecordBatch
    times: Times
    shape: ValueSchema
    """How the elements are made of columns."""
    windows: Callable[[], tuple[Times, Times]]
    """Start and end of the window of each element, microseconds UTC. Raises `Unable`."""
    panes: Callable[[], tuple[Numbers, Numbers]] = _without_panes
    """Index and timing of the pane of each element. Raises `Unable`."""
    _new_columns: list[pa.Array] = field(default_factory=list)
    _new_times: Times | None = None

    def column(self, shape: ValueSchema) -> pa.Array:
        """The column of a shape that is a single column. Raises `Unable`."""
        if not isinstance(shape, (Single, Instant)):
            raise Unable(f"{type(shape).__name__} is made of several columns")
        width = self.table.num_columns
        column: pa.Array = (
            self._new_columns[shape.column - width] if shape.column >= width else self.table.column(shape.column)
        )
        return column

    def shape_of(self, function: object) -> ValueSchema:
        """The shape of the results of a function of the elements. Raises `Unable`, or an error of Arrow's."""
        if not isinstance(function, ColumnFunction):
            raise Unable(f"{place_of(function)} is a function of one element")
        return function.on_columns(self)

    def pair(self) -> tuple[ValueSchema, ValueSchema]:
        """The shapes of both parts of elements that are pairs. Raises `Unable`."""
        shapes = self.items(self.shape)
        if len(shapes) != 2:
            raise Unable(f"the elements are tuples of {len(shapes)}")
        return shapes[0], shapes[1]

    @staticmethod
    def items(shape: ValueSchema) -> tuple[ValueSchema, ...]:
        """The shapes of the items of tuples, also of named ones. Raises `Unable`."""
        if isinstance(shape, Tuple) or (isinstance(shape, Fields) and shape.kind is FieldsKind.TUPLE):
            return shape.shapes
        raise Unable("the elements are no tuples")

    def nothing(self) -> ValueSchema:
        """The shape of None for every element."""
        return Single(self.add(pa.nulls(len(self.times))))

    def add(self, column: pa.Array) -> int:
        """Add a column; returns its index."""
        self._new_columns.append(column)
        index: int = self.table.num_columns + len(self._new_columns) - 1
        return index

    def stamp(self, times: Times) -> None:
        """Give the results event times of their own."""
        self._new_times = times

    def result(self, shape: ValueSchema) -> ColumnBatch:
        """A batch of a shape, with only the columns that the shape uses."""
        columns, times = [*self.table.columns, *self._new_columns], self.times
        if self._new_times is not None:
            times = self._new_times
        needed = list(dict.fromkeys(shape.columns()))
        if not needed:
            # A table without columns would have no number of rows.
            return ColumnBatch(pa.record_batch([pa.nulls(len(self.times))], ["0"]), times, shape)
        table = pa.RecordBatch.from_arrays([columns[place] for place in needed], list(map(str, needed)))
        return ColumnBatch(table, times, shape.moved({place: index for index, place in enumerate(needed)}))


@runtime_checkable
class ColumnFunction(Protocol):
    """A function of an element that can be computed for many elements at once."""

    def on_columns(self, view: BatchView) -> ValueSchema:
        """The shape of its results. Raises `Unable`, or an error of Arrow's, where they might differ from Python's."""

    def column_parts(self) -> Sequence[Callable[..., object]]:
        """The functions that it calls, which must be functions on columns, too."""


def why_not_vectorized(function: object) -> str | None:
    """Why a function can never be computed on columns; None if it can.

    >>> why_not_vectorized(len)
    'len is a function of one element'
    """
    if not isinstance(function, ColumnFunction):
        return f"{place_of(function)} is a function of one element"
    return next(filter(None, map(why_not_vectorized, function.column_parts())), None)


def filtered(batch: ColumnBatch, kept: pa.Array) -> ColumnBatch:
    """The rows for which a column of bools is true; it has no nulls."""
    count = kept.true_count
    if count == len(batch):
        return batch
    is_kept = numbers_in(kept).astype(np.bool_)
    values = None if batch.made is None else list(compress(batch.made, is_kept.tolist()))
    return ColumnBatch(batch.table.filter(kept), batch.times[is_kept], batch.shape, values)


Pair = tuple[object, object]


class PairFunction:
    """A function of pairs, known by what it does with their columns."""

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


class Second(PairFunction):
    """The value of a pair, as of key and value."""

    def __call__(self, both: Pair) -> object:
        """See the class."""
        return both[1]

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return view.pair()[1]


class UnderNone(PairFunction):
    """Pairs of None and the element: all elements under one key."""

    def __call__(self, element: object) -> tuple[None, object]:
        """See the class."""
        return None, element

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.nothing(), view.shape)


class WithNothing(PairFunction):
    """Pairs of the element and None: only how often it comes is asked for."""

    def __call__(self, element: object) -> tuple[object, None]:
        """See the class."""
        return element, None

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.shape, view.nothing())
