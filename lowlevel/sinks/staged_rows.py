"""The rows of one task for one sink, and the encoding in which the task sends them to the driver.

It is no part of the paper. Rows are stored as columns where the columns give back the same rows: that takes a fifth of
the time of a pickle of (value, timestamp) pairs, which takes over a microsecond a row. All tasks wait for the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import decode_tables, encode_tables
from headrace.lowlevel.records.column_batch import ColumnBatch, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.records.transposed_tuples import TransposedTuples, packed
from headrace.lowlevel.stored_names import stored_as

TimedRow = tuple[object, int]
"""A value and its timestamp, microseconds UTC."""
_FEW = 64
"""Up to this many rows, columns are slower than a list of values."""
_PLAIN = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
)
"""Arrow types whose conversion to Python cannot fail for a valid column, and imports no module."""


class RowsPart(Protocol):
    """Consecutive rows of an epoch. Persisted: implementations are stored in the commit."""

    def rows(self) -> Iterator[TimedRow]:
        """The rows, in order."""


@stored_as("StagedColumns")
class ColumnPart(NamedTuple):
    """Rows that were columns in the task. Persisted: every field."""

    tables: bytes
    """The columns, as `encode_tables` writes them."""
    shape: ValueSchema
    """How a value is made of the columns."""
    timestamps: bytes
    """A signed 64-bit integer for each row, microseconds UTC, in the byte order of the machine."""

    def rows(self) -> Iterator[TimedRow]:
        """See `RowsPart`."""
        values = chain.from_iterable(map(self.shape.values, decode_tables(self.tables)))
        return zip(values, np.frombuffer(self.timestamps, np.int64).tolist(), strict=True)


@stored_as("StagedTuples")
class TuplePart(NamedTuple):
    """Rows whose values are tuples of one length. Persisted: every field."""

    columns: tuple[Sequence[object], ...]
    """For each index in the tuples, the items of all rows."""
    timestamps: Sequence[object]

    def rows(self) -> Iterator[TimedRow]:
        """See `RowsPart`."""
        return cast("Iterator[TimedRow]", zip(zip(*self.columns, strict=True), self.timestamps, strict=True))


@stored_as("StagedValues")
class ValuePart(NamedTuple):
    """Rows with values of any type. Persisted: every field."""

    values: list[object]
    timestamps: Sequence[object]

    def rows(self) -> Iterator[TimedRow]:
        """See `RowsPart`."""
        return cast("Iterator[TimedRow]", zip(self.values, self.timestamps, strict=True))


@stored_as("StagedRows")
class Staged(NamedTuple):
    """The rows of one task and epoch for a sink. Persisted: every field.

    >>> Staged.of(Batch([("a", 1), ("b", 2)], [10, 20])).parts
    [TuplePart(columns=(['a', 'b'], array('q', [1, 2])), timestamps=array('q', [10, 20]))]
    """

    parts: list[RowsPart]

    @classmethod
    def of(cls, batch: Batch) -> Staged:
        """Convert a batch; its ids are left out."""
        parts: list[RowsPart] = []
        for (shape, _), batches in groupby(batch.parts(), _kind):
            group = list(batches)
            parts.append(_of_values(group) if shape is None else _of_columns(cast("list[ColumnBatch]", group), shape))
        return cls(parts)

    def rows(self) -> Iterator[TimedRow]:
        """All rows, in order."""
        return chain.from_iterable(part.rows() for part in self.parts)


def _kind(batch: Batch) -> tuple[ValueSchema | None, pa.Schema | None]:
    """The shape and schema that batches of one `ColumnPart` share; (None, None) for a batch to store as values."""
    if not isinstance(batch, ColumnBatch) or len(batch) <= _FEW or not all(map(_is_plain, batch.table.columns)):
        return None, None
    try:
        batch.table.validate(full=True)
    except pa.ArrowInvalid:
        # Conversion to Python values in the task raises the error before anything is committed.
        return None, None
    return batch.shape, batch.table.schema


def _is_plain(column: pa.Array) -> bool:
    kind = column.type
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in _PLAIN


def _of_columns(batches: Sequence[ColumnBatch], shape: ValueSchema) -> ColumnPart:
    times = np.concatenate([batch.times for batch in batches])
    tables = encode_tables([batch.table for batch in batches], batches[0].table.schema)
    return ColumnPart(tables, shape, times.astype(np.int64, copy=False).tobytes())


def _of_values(batches: Sequence[Batch]) -> RowsPart:
    values = [value for batch in batches for value in batch.values]
    timestamps = packed([timestamp for batch in batches for timestamp in batch.timestamps])
    if (turned := TransposedTuples.of(values, [])) is None:
        return ValuePart(values, timestamps)
    return TuplePart(tuple(turned.whole()), timestamps)


class Collected(Batch):
    """A batch that concatenates other batches. It has no ids.

    >>> collected = Collected()
    >>> collected.add(Batch(["a"], [1])), collected.add(Batch(["b"], [2]))
    (None, None)
    >>> len(collected), collected.values, collected.timestamps
    (2, ['a', 'b'], [1, 2])
    """

    __slots__ = ("_parts", "_size", "_timestamps", "_values")

    def __init__(self) -> None:
        self._parts: list[Batch] = []
        self._size = 0
        self.ids = None
        self._values: list[object] | None = None
        self._timestamps: list[int] | None = None

    def add(self, batch: Batch) -> None:
        """Append a batch, without its ids."""
        self._size += len(batch)
        self._values = self._timestamps = None
        if type(batch) is not Batch:
            self._parts.append(batch)
            return
        # Batches of one record are common; plain batches are therefore merged into one.
        if not self._parts or type(self._parts[-1]) is not Batch:
            self._parts.append(Batch([], []))
        cast("list[object]", self._parts[-1].values).extend(batch.values)
        cast("list[int]", self._parts[-1].timestamps).extend(batch.timestamps)

    # mypy: the base class has fields that can be set; here they are made of columns at the first look, and read-only.
    @property
    def values(self) -> list[object]:  # type: ignore[override]  # a field in the base class
        """The values of all batches as one list, made at the first access."""
        if self._values is None:
            self._values = list(chain.from_iterable(part.values for part in self._parts))
        return self._values

    @property
    def timestamps(self) -> list[int]:  # type: ignore[override]  # a field in the base class
        """The event times of all batches, microseconds UTC, as one list made at the first access."""
        if self._timestamps is None:
            self._timestamps = list(chain.from_iterable(part.timestamps for part in self._parts))
        return self._timestamps

    def __len__(self) -> int:
        return self._size

    def parts(self) -> Sequence[Batch]:
        """See `Batch`."""
        return self._parts
