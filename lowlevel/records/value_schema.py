"""How values are made of columns: single ones, tuples, dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from headrace.lowlevel.columns import Shape
from headrace.lowlevel.dicts import dicts_of
from headrace.lowlevel.tolist import to_list


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
class Named:
    """A dict.

    >>> Named(("late",), (Single(1),)).values(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [{'late': 3}]
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    """Of each field."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        return cast("list[object]", dicts_of(self.names, [shape.values(table) for shape in self.shapes]))

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, places: Mapping[int, int]) -> Named:
        """See `Shape`."""
        return Named(self.names, tuple(shape.moved(places) for shape in self.shapes))

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
