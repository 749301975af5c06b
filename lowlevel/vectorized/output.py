"""Values that a column computation produces, as columns where these give the same values again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columns import ColumnBatch, Shape
from headrace.lowlevel.record import Batch
from headrace.lowlevel.shapes import Named, Single, Tuple

Values: TypeAlias = "ArrayLike | pa.Array"
"""An array of numpy or Arrow, or a list."""
_SAME = ({str}, {int}, {float}, {bool}, {bytes})
"""Types of which values come out of a column as they went in."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Columns, and what values are made of them.

    >>> Produced.of({"key": ["a", "b"], "sum": np.array([1, 2])}).batch(np.array([10, 20])).values
    [{'key': 'a', 'sum': 1}, {'key': 'b', 'sum': 2}]
    >>> Produced.of(([("a", 1)], np.array([1]))).batch(np.array([10])).values
    [(('a', 1), 1)]
    """

    shape: Shape
    columns: list[pa.Array | list[object]]
    """A list where values would not come out of a column as they went in."""

    @classmethod
    def of(cls, columns: Mapping[str, Values] | Sequence[Values] | Values) -> Produced:
        """Raises `TypeError` and `ValueError` for what is no columns, or not equally long ones."""
        named: dict[str, Values]
        if isinstance(columns, Mapping):
            named = {f"column {name!r}": column for name, column in columns.items()}
        elif isinstance(columns, (list, tuple)):
            named = {f"column {place}": column for place, column in enumerate(columns)}
        else:
            named = {"the column": columns}
        if not named:
            raise ValueError("no columns were given to produce; give one at least")
        arrays = [_column(column, name) for name, column in named.items()]
        for name, array in zip(named, arrays, strict=True):
            if len(array) != len(arrays[0]):
                raise ValueError(f"{name} to produce has {len(array)} values, and the first one {len(arrays[0])}")
        singles: tuple[Shape, ...] = tuple(map(Single, range(len(arrays))))
        if isinstance(columns, Mapping):
            return cls(Named(tuple(columns), singles), arrays)
        return cls(Tuple(singles) if isinstance(columns, (list, tuple)) else singles[0], arrays)

    def __len__(self) -> int:
        return len(self.columns[0])

    def batch(self, timestamps: Numbers) -> Batch:
        """The values at their timestamps."""
        if all(isinstance(column, pa.Array) for column in self.columns):
            table = pa.RecordBatch.from_arrays(self.columns, [f"f{place}" for place in range(len(self.columns))])
            return ColumnBatch(table, timestamps, self.shape)
        lists = [column.to_pylist() if isinstance(column, pa.Array) else column for column in self.columns]
        return Batch(self._values(lists), timestamps.tolist())

    def _values(self, lists: Sequence[list[object]]) -> list[object]:
        if isinstance(self.shape, Single):
            return lists[0]
        rows = zip(*lists, strict=True)
        if isinstance(self.shape, Named):
            return [dict(zip(self.shape.names, row, strict=True)) for row in rows]
        return list(rows)


def _column(column: object, what: str) -> pa.Array | list[object]:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    if isinstance(column, pa.Array):
        return column
    if isinstance(column, (list, tuple)):
        return _of_values(list(column))
    array = np.asarray(column)
    if array.ndim != 1:
        raise TypeError(f"{what} to produce has {array.ndim} dimensions; a column has one")
    if array.dtype == np.object_:
        return _of_values(array.tolist())
    try:
        # A copy, as an array of numpy may be changed when this is still on its way.
        return pa.array(array.copy())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeError(f"{what} to produce cannot be a column: {error}; give an array of numpy or Arrow") from None


def _of_values(values: list[object]) -> pa.Array | list[object]:
    if set(map(type, values)) not in _SAME:
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError):
        # More than 64 bits; half a pair of surrogates.
        return values
