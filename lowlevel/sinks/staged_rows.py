"""Rows that a task keeps for the driver: columns, where these give the same rows again in a fifth of the time.

The engine's own addition to the paper's model. A pickle of (value, timestamp) for each row is made and read at well
over a microsecond a row, and the driver reads it while all tasks wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columns import ColumnBatch, Shape
from headrace.lowlevel.record import Batch
from headrace.lowlevel.streamed import decode_tables, encode_tables
from headrace.lowlevel.turned import Turned, packed

Row = tuple[object, int]
"""A value and its timestamp, microseconds UTC."""
_FEW = 64
"""Rows up to which columns cost more than they spare."""
_PLAIN = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
)
"""Arrow's types of which making Python values cannot fail, once a column is valid, and loads nothing."""


class Part(Protocol):
    """Some of the rows. Persisted: a commit has those of its epoch."""

    def rows(self) -> Iterator[Row]:
        """In their order."""


class ColumnPart(NamedTuple):
    """Rows that came as columns. Persisted: every field."""

    tables: bytes
    """As `encode_tables` makes them."""
    shape: Shape
    """How the values are made of these."""
    timestamps: bytes
    """64 bits each."""

    def rows(self) -> Iterator[Row]:
        """See `Part`."""
        values = chain.from_iterable(map(self.shape.values, decode_tables(self.tables)))
        return zip(values, np.frombuffer(self.timestamps, np.int64).tolist(), strict=True)


class TuplePart(NamedTuple):
    """Rows whose values are tuples of one length. Persisted: every field."""

    columns: tuple[Sequence[object], ...]
    """The items of all tuples at each place."""
    timestamps: Sequence[object]

    def rows(self) -> Iterator[Row]:
        """See `Part`."""
        return cast("Iterator[Row]", zip(zip(*self.columns, strict=True), self.timestamps, strict=True))


class ValuePart(NamedTuple):
    """Any rows. Persisted: every field."""

    values: list[object]
    timestamps: Sequence[object]

    def rows(self) -> Iterator[Row]:
        """See `Part`."""
        return cast("Iterator[Row]", zip(self.values, self.timestamps, strict=True))


class Staged(NamedTuple):
    """The rows of a task and epoch. Persisted: every field.

    >>> Staged.of(Batch([("a", 1), ("b", 2)], [10, 20])).parts
    [TuplePart(columns=(['a', 'b'], array('q', [1, 2])), timestamps=array('q', [10, 20]))]
    """

    parts: list[Part]

    @classmethod
    def of(cls, batch: Batch) -> Staged:
        """Those of a batch."""
        parts: list[Part] = []
        for (shape, _), batches in groupby(batch.parts(), _kind):
            its = list(batches)
            parts.append(_of_values(its) if shape is None else _of_columns(cast("list[ColumnBatch]", its), shape))
        return cls(parts)

    def rows(self) -> Iterator[Row]:
        """In their order."""
        return chain.from_iterable(part.rows() for part in self.parts)


def _kind(batch: Batch) -> tuple[Shape | None, pa.Schema | None]:
    """What batches have in common that travel together as columns; nothing for one that travels as values."""
    if not isinstance(batch, ColumnBatch) or len(batch) <= _FEW or not all(map(_is_plain, batch.table.columns)):
        return None, None
    try:
        batch.table.validate(full=True)
    except pa.ArrowInvalid:
        # Whoever makes values of it here has the error to show, before anything is committed.
        return None, None
    return batch.shape, batch.table.schema


def _is_plain(column: pa.Array) -> bool:
    kind = column.type
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in _PLAIN


def _of_columns(batches: Sequence[ColumnBatch], shape: Shape) -> ColumnPart:
    times = np.concatenate([batch.times for batch in batches])
    tables = encode_tables([batch.table for batch in batches], batches[0].table.schema)
    return ColumnPart(tables, shape, times.astype(np.int64, copy=False).tobytes())


def _of_values(batches: Sequence[Batch]) -> Part:
    values = [value for batch in batches for value in batch.values]
    timestamps = packed([timestamp for batch in batches for timestamp in batch.timestamps])
    if (turned := Turned.of(values, [])) is None:
        return ValuePart(values, timestamps)
    return TuplePart(tuple(turned.whole()), timestamps)
