"""Batches of records as Arrow columns; their Python values are made on demand.

The engine's own addition to the paper's model. Vectorized code works on `ColumnBatch.table` and `times`; for all other
code a `ColumnBatch` is a `Batch`. A value schema says how a value is made of columns: of one column, or as a tuple or
dict of such values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol, cast, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import dicts_of, named_values, of_numbers, without_dictionary
from headrace.lowlevel.records.record import Batch, KeyExtractor
from headrace.lowlevel.stored_names import stored_as

Times = NDArray[np.int64]
"""Event times in microseconds UTC."""


class ValueSchema(Protocol):
    """How the values of a batch are made of its columns. Schemas are small, immutable and comparable."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """The value of each row; each call makes new objects."""

    def part(self, index: int) -> ValueSchema | None:
        """The schema of `value[index]`; None if that is not made of columns."""

    def columns(self) -> tuple[int, ...]:
        """Indices of the columns that a value is made of."""

    def moved(self, indices: Mapping[int, int]) -> ValueSchema:
        """The schema for a table with the columns at other indices; `indices` maps old ones to new ones."""


@runtime_checkable
class ColumnExtractor(Protocol):
    """A key extractor, or another function of a value, that can give the schema of its results."""

    def shape_in(self, shape: ValueSchema) -> ValueSchema | None:
        """The schema of the results for values of `shape`; None if only calls give them."""


@runtime_checkable
class EncodedKeys(Protocol):
    """A schema of keys that encodes them by columns; its column has the same value in rows with the same key."""

    def encoded(self, table: pa.RecordBatch) -> pa.Array:
        """The encoding of the key of each row, of type `large_binary`."""


class ColumnBatch(Batch):
    """Records of one stream as Arrow columns; immutable.

    Args:
        table: The columns, which the schema refers to by index.
        times: Event time of each row, int64 microseconds UTC.
        shape: Schema of the values.
        values: The values, if they exist already.
    """

    __slots__ = ("_timestamps", "_values", "shape", "table", "times")

    def __init__(
        self, table: pa.RecordBatch, times: Times, shape: ValueSchema, values: list[object] | None = None
    ) -> None:
        self.table = table
        self.times = times
        self.shape = shape
        self.ids = None
        self._values = values
        self._timestamps: list[int] | None = None

    # mypy: the base class has fields that can be set; here they are read-only and made at the first read.
    @property
    def values(self) -> list[object]:  # type: ignore[override]  # a field in the base class
        """The values as Python objects, made at the first read."""
        if self._values is None:
            self._values = self.shape.values(self.table)
        return self._values

    @property
    def made(self) -> list[object] | None:
        """The values, if they exist already."""
        return self._values

    @property
    def timestamps(self) -> list[int]:  # type: ignore[override]  # a field in the base class
        """The event times as Python integers, made at the first read."""
        if self._timestamps is None:
            self._timestamps = self.times.tolist()
        return self._timestamps

    def __len__(self) -> int:
        return len(self.times)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnBatch, (self.table, self.times, self.shape)

    def instants(self) -> Times:
        """See `Batch`."""
        return self.times

    def greatest(self) -> int:
        """See `Batch`."""
        return int(self.times.max())

    def count_before(self, watermark: int) -> int:
        """See `Batch`."""
        return int(np.count_nonzero(self.times < watermark))

    def decoded(self) -> ColumnBatch:
        """The same records, without columns that have dictionaries."""
        columns = self.table.columns
        if not any(pa.types.is_dictionary(column.type) for column in columns):
            return self
        table = pa.RecordBatch.from_arrays(list(map(without_dictionary, columns)), self.table.schema.names)
        return ColumnBatch(table, self.times, self.shape, self._values)

    def taken(self, indices: NDArray[np.int64]) -> ColumnBatch:
        """A batch of the rows with these indices, in the order of `indices`."""
        return ColumnBatch(self.table.take(of_numbers(indices)), self.times[indices], self.shape)


def concatenated(batches: Sequence[ColumnBatch]) -> ColumnBatch:
    """One batch with the rows of all, in order. There must be a batch, and all must have equal columns and schemas."""
    first = batches[0]
    if len(batches) == 1:
        return first
    arrays = [
        pa.concat_arrays([batch.table.column(number) for batch in batches]) for number in range(first.table.num_columns)
    ]
    table = pa.RecordBatch.from_arrays(arrays, schema=first.table.schema)
    return ColumnBatch(table, np.concatenate([batch.times for batch in batches]), first.shape)


def shape_of_key(extract: KeyExtractor, shape: ValueSchema) -> ValueSchema | None:
    """The schema of the keys that an extractor gives for values of `shape`; None if only calls give them."""
    function: object = extract
    if isinstance(function, itemgetter):
        # Only its pickled form says which items an `itemgetter` takes.
        items = cast("tuple[object, tuple[object, ...]]", function.__reduce__())[1]
        return shape.part(items[0]) if len(items) == 1 and isinstance(items[0], int) else None
    return function.shape_in(shape) if isinstance(function, ColumnExtractor) else None


@stored_as("SingleShape")
@dataclass(frozen=True, slots=True)
class Single:
    """The value of one column.

    >>> Single(1).values(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}))
    [3]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return named_values(table, self.column)

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (self.column,)

    def moved(self, indices: Mapping[int, int]) -> Single:
        """See `ValueSchema`."""
        return Single(indices[self.column])


@stored_as("DictShape")
@dataclass(frozen=True, slots=True)
class Named:
    """A dict with a value for each name.

    >>> Named(("late",), (Single(1),)).values(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}))
    [{'late': 3}]
    """

    names: tuple[str, ...]
    shapes: tuple[ValueSchema, ...]
    """Schema of each field, as many as names."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return cast("list[object]", dicts_of(self.names, [shape.values(table) for shape in self.shapes]))

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, indices: Mapping[int, int]) -> Named:
        """See `ValueSchema`."""
        return Named(self.names, tuple(shape.moved(indices) for shape in self.shapes))

    def field(self, name: str) -> ValueSchema | None:
        """The schema of a field; None if there is no field of that name."""
        return self.shapes[self.names.index(name)] if name in self.names else None


@stored_as("TupleShape")
@dataclass(frozen=True, slots=True)
class Tuple:
    """A plain tuple, for instance of key and value.

    >>> pair(Single(0), Single(1)).values(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}))
    [('UA', 3)]
    """

    shapes: tuple[ValueSchema, ...]
    """Schema of each item."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        if not self.shapes:
            return [()] * table.num_rows
        return list(zip(*(shape.values(table) for shape in self.shapes), strict=True))

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.shapes[index] if 0 <= index < len(self.shapes) else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, indices: Mapping[int, int]) -> Tuple:
        """See `ValueSchema`."""
        return Tuple(tuple(shape.moved(indices) for shape in self.shapes))


def pair(first: ValueSchema, second: ValueSchema) -> Tuple:
    """The schema of a pair."""
    return Tuple((first, second))
