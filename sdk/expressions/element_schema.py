"""What: how elements are made of columns: single values, dicts, rows, tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast

import pyarrow as pa

from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.columnar.arrow_arrays import dicts_of
from headrace.lowlevel.records.column_batch import Single, Tuple, ValueSchema, pair
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.row import Row

__all__ = ["Fields", "FieldsKind", "Instant", "Single", "Tuple", "pair"]


@stored_as("TimestampShape")
@dataclass(frozen=True, slots=True)
class Instant:
    """A `Timestamp`, of a column with its microseconds UTC as 64-bit integers.

    >>> Instant(0).values(pa.record_batch({"start": [1_500_000]}))
    [Timestamp(1.500000)]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return [Timestamp(micros=micros) for micros in cast(list[int], table.column(self.column).to_pylist())]

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (self.column,)

    def moved(self, indices: Mapping[int, int]) -> Instant:
        """See `ValueSchema`."""
        return Instant(indices[self.column])


@stored_as("FieldsKind")
class FieldsKind(Enum):
    """The kind of value that has the fields."""

    DICT = "dict"
    ROW = "Row"
    TUPLE = "tuple"


@stored_as("FieldsShape")
@dataclass(frozen=True, slots=True)
class Fields:
    """Named values.

    >>> Fields(("late",), (Single(1),), FieldsKind.DICT).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [{'late': 3}]
    """

    names: tuple[str, ...]
    shapes: tuple[ValueSchema, ...]
    """The shape of each field."""
    kind: FieldsKind
    tuple_name: str = ""
    """Name of the type of named tuples."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        if not self.names:
            return [Row() if self.kind is FieldsKind.ROW else {} for _ in range(table.num_rows)]
        columns = [shape.values(table) for shape in self.shapes]
        if self.kind is FieldsKind.TUPLE:
            make = cast(Callable[..., object], dynamic_named_tuple(self.tuple_name, self.names))
            return [make(*values) for values in zip(*columns, strict=True)]
        fields = dicts_of(self.names, columns)
        return [Row.of(each) for each in fields] if self.kind is FieldsKind.ROW else cast("list[object]", fields)

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        is_one = self.kind is FieldsKind.TUPLE and 0 <= index < len(self.shapes)
        return self.shapes[index] if is_one else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, indices: Mapping[int, int]) -> Fields:
        """See `ValueSchema`."""
        return replace(self, shapes=tuple(shape.moved(indices) for shape in self.shapes))

    def field(self, name: str) -> ValueSchema | None:
        """The shape of a field."""
        return self.shapes[self.names.index(name)] if name in self.names else None
