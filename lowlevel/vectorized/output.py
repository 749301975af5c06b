"""The values that a column computation produces, kept as columns where columns give back the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.column_batch import ColumnBatch, Named, Single, Tuple, ValueSchema
from headrace.lowlevel.records.record import Batch

Values: TypeAlias = "ArrayLike | pa.Array"
"""A numpy array, an Arrow array, a list, or a single value."""
_SAME = ({str}, {int}, {float}, {bool}, {bytes})
"""Types whose values are the same after conversion to an Arrow column and back."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Produced columns, and the shape of the values that they make up.

    >>> Produced.of({"key": ["a", "b"], "sum": np.array([1, 2])}).batch(np.array([10, 20])).values
    [{'key': 'a', 'sum': 1}, {'key': 'b', 'sum': 2}]
    >>> Produced.of(([("a", 1)], np.array([1]))).batch(np.array([10])).values
    [(('a', 1), 1)]
    """

    shape: ValueSchema
    columns: list[pa.Array | list[object]]
    """Columns of equal lengths; a list where conversion to Arrow and back would change the values."""

    @classmethod
    def of(cls, columns: Mapping[str, Values] | Sequence[Values] | Values) -> Produced:
        """Convert the `columns` argument of `ColumnContext.produce_columns`.

        Raises TypeError for an argument that is not a column, ValueError for no columns or different lengths.
        """
        named: dict[str, Values]
        if isinstance(columns, Mapping):
            named = {f"column {name!r}": column for name, column in columns.items()}
        elif isinstance(columns, (list, tuple)):
            named = {f"column {index}": column for index, column in enumerate(columns)}
        else:
            named = {"the column": columns}
        if not named:
            raise ValueError("no columns were given to produce; give at least one")
        arrays = [_column(column, name) for name, column in named.items()]
        for name, array in zip(named, arrays, strict=True):
            if len(array) != len(arrays[0]):
                raise ValueError(
                    f"{name} to produce has {len(array)} values, and the first column {len(arrays[0])}; "
                    "give equal lengths"
                )
        singles: tuple[ValueSchema, ...] = tuple(map(Single, range(len(arrays))))
        if isinstance(columns, Mapping):
            return cls(Named(tuple(columns), singles), arrays)
        return cls(Tuple(singles) if isinstance(columns, (list, tuple)) else singles[0], arrays)

    def __len__(self) -> int:
        return len(self.columns[0])

    def batch(self, timestamps: Numbers) -> Batch:
        """A batch of the values; `timestamps` has one int64 for each value, microseconds UTC."""
        if all(isinstance(column, pa.Array) for column in self.columns):
            table = pa.RecordBatch.from_arrays(self.columns, [f"f{index}" for index in range(len(self.columns))])
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


def _column(column: object, label: str) -> pa.Array | list[object]:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    if isinstance(column, pa.Array):
        return column
    if isinstance(column, (list, tuple)):
        return _of_values(list(column))
    array = np.asarray(column)
    if array.ndim != 1:
        raise TypeError(f"{label} to produce has {array.ndim} dimensions; a column has one")
    if array.dtype == np.object_:
        return _of_values(array.tolist())
    try:
        # A copy, because the caller may change a numpy array before the values are delivered.
        return pa.array(array.copy())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeError(f"{label} to produce cannot be a column: {error}; give an array of numpy or Arrow") from None


def _of_values(values: list[object]) -> pa.Array | list[object]:
    if set(map(type, values)) not in _SAME:
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError):
        # An integer has more than 64 bits, or a string has an unpaired surrogate.
        return values
