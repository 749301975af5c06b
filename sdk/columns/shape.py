"""What: how elements are made of columns: single values, dicts, rows, tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast

import pyarrow as pa

from headrace.lowlevel.columns import Shape
from headrace.lowlevel.keykinds import dynamic_named_tuple
from headrace.lowlevel.time import Timestamp
from headrace.sdk.columns.dicts import dicts_of
from headrace.sdk.io.columns import to_list
from headrace.sdk.row import Row


@dataclass(frozen=True, slots=True)
class Single:
    """The value of one column.

    >>> Single(1).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [3]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        return to_list(table.column(self.column))

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return (self.column,)

    def moved(self, places: Mapping[int, int]) -> Single:
        """See `Shape`."""
        return Single(places[self.column])


@dataclass(frozen=True, slots=True)
class Instant:
    """A `Timestamp`, of a column with its microseconds UTC as 64-bit integers.

    >>> Instant(0).values(pa.record_batch({"start": [1_500_000]}))
    [Timestamp(1.500000)]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        return [Timestamp(micros=micros) for micros in cast(list[int], table.column(self.column).to_pylist())]

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return (self.column,)

    def moved(self, places: Mapping[int, int]) -> Instant:
        """See `Shape`."""
        return Instant(places[self.column])


class FieldsKind(Enum):
    """What has the fields."""

    DICT = "dict"
    ROW = "Row"
    TUPLE = "tuple"


@dataclass(frozen=True, slots=True)
class Fields:
    """Named values.

    >>> Fields(("late",), (Single(1),), FieldsKind.DICT).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [{'late': 3}]
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    """Of each field."""
    kind: FieldsKind
    tuple_name: str = ""
    """Name of the type of named tuples."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        if not self.names:
            return [Row() if self.kind is FieldsKind.ROW else {} for _ in range(table.num_rows)]
        columns = [shape.values(table) for shape in self.shapes]
        if self.kind is FieldsKind.TUPLE:
            make = cast(Callable[..., object], dynamic_named_tuple(self.tuple_name, self.names))
            return [make(*values) for values in zip(*columns, strict=True)]
        fields = dicts_of(self.names, columns)
        return [Row.of(each) for each in fields] if self.kind is FieldsKind.ROW else cast("list[object]", fields)

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        is_one = self.kind is FieldsKind.TUPLE and 0 <= index < len(self.shapes)
        return self.shapes[index] if is_one else None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, places: Mapping[int, int]) -> Fields:
        """See `Shape`."""
        return replace(self, shapes=tuple(shape.moved(places) for shape in self.shapes))

    def field(self, name: str) -> Shape | None:
        """The shape of a field."""
        return self.shapes[self.names.index(name)] if name in self.names else None


@dataclass(frozen=True, slots=True)
class Tuple:
    """A plain tuple, as of key and value.

    >>> pair(Single(0), Single(1)).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [('UA', 3)]
    """

    shapes: tuple[Shape, ...]
    """Of each element."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        if not self.shapes:
            return [()] * table.num_rows
        return list(zip(*(shape.values(table) for shape in self.shapes), strict=True))

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return self.shapes[index] if 0 <= index < len(self.shapes) else None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, places: Mapping[int, int]) -> Tuple:
        """See `Shape`."""
        return Tuple(tuple(shape.moved(places) for shape in self.shapes))


def pair(first: Shape, second: Shape) -> Tuple:
    """The shape of a pair."""
    return Tuple((first, second))
