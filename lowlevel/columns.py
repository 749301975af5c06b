"""What travels, as columns: a batch whose records become Python values only when somebody asks for them.

The engine's own addition to the paper's model. Whoever knows of columns works on `ColumnBatch.table` and `times`; for
everybody else it is a `Batch` like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Protocol, cast, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.record import Batch, KeyExtractor

Times = NDArray[np.int64]
"""Event times in microseconds UTC."""


class Shape(Protocol):
    """How the values of a batch are made of its columns. Shapes are configuration: small, immutable, comparable."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """The value of each row; new ones with every call."""

    def part(self, index: int) -> Shape | None:
        """The shape of `value[index]`, None if that is none."""

    def columns(self) -> tuple[int, ...]:
        """Places of the columns that make a value."""

    def moved(self, places: Mapping[int, int]) -> Shape:
        """The same for a table in which the columns are in other places: old place -> new."""


@runtime_checkable
class ColumnExtractor(Protocol):
    """A key extractor, or another function of a value, that knows where in a shape its result lies."""

    def shape_in(self, shape: Shape) -> Shape | None:
        """The shape of its result for values of a shape; None if only calling it can tell."""


class ColumnBatch(Batch):
    """Records of one stream as Arrow columns. `values` and `timestamps` are made with the first look at them.

    Args:
        table: The columns; a shape knows them by their places.
        times: Event times in microseconds UTC, one a row.
        shape: How the values are made.
    """

    __slots__ = ("shape", "table", "times")

    def __init__(self, table: pa.RecordBatch, times: Times, shape: Shape) -> None:
        self.table = table
        self.times = times
        self.shape = shape
        self.ids = None

    def __getattr__(self, name: str) -> object:
        # Only asked for what is not there yet.
        if name == "values":
            self.values = self.shape.values(self.table)
            return self.values
        if name == "timestamps":
            self.timestamps = self.times.tolist()
            return self.timestamps
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

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

    def taken(self, places: NDArray[np.int64]) -> ColumnBatch:
        """The rows at these places, in their order."""
        return ColumnBatch(self.table.take(of_numbers(places)), self.times[places], self.shape)


def shape_of_key(extract: KeyExtractor, shape: Shape) -> Shape | None:
    """The shape of what an extractor takes out of values of a shape; None if only calling it can tell."""
    function: object = extract
    if isinstance(function, itemgetter):
        # A function of C hides what it takes, but not from pickle.
        where = cast("tuple[object, tuple[object, ...]]", function.__reduce__())[1]
        return shape.part(where[0]) if len(where) == 1 and isinstance(where[0], int) else None
    return function.shape_in(shape) if isinstance(function, ColumnExtractor) else None
