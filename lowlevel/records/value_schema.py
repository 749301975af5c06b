"""Value schemas: a value made of one column, or a tuple or dict of such values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import dicts_of, to_list
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.stored_names import stored_as


@stored_as("SingleShape")
@dataclass(frozen=True, slots=True)
class Single:
    """The value of one column.

    >>> Single(1).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [3]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return to_list(table.column(self.column))

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

    >>> Named(("late",), (Single(1),)).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
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

    >>> pair(Single(0), Single(1)).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
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
