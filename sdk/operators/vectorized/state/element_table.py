"""What: tables of the values that windows of many keys hold until they fire, in memory and in segments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_numbers
from headrace.lowlevel.columnar.key_columns import ENCODED, Numbers
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.state import segment
from headrace.lowlevel.vectorized.segment_store import Table, segment_lines
from headrace.sdk.operators.vectorized.state.window_table import KEY_HASH, decoded_numbers, encoded_numbers

NAMES = ("start", "end", "epoch", "position", "count")
START, END, EPOCH, POSITION, COUNT = range(len(NAMES))
"""Indices of columns: start and end of the window (microseconds UTC), the epoch in which the values arrived, a number
that ascends in the order in which the lines of an epoch arrived, and number of values."""
_VALUES = "values"
"""Name of the column with pickled lists of values."""
_SHAPE = b"shape"
"""Metadata key of the schema: the pickled `ValueSchema` of values in columns."""


@dataclass(frozen=True, slots=True)
class ValueColumns:
    """The values of lines with one value each, as Arrow columns."""

    table: pa.RecordBatch
    shape: ValueSchema

    @property
    def kind(self) -> object:
        """Equal for values that can be concatenated."""
        return self.shape, tuple(self.table.schema.types)

    def sizes(self) -> Numbers:
        """The size of each line's values in bytes, as the mean of all lines: int64."""
        return np.full(len(self.table), self.table.nbytes // max(1, len(self.table)))

    def taken(self, lines: Numbers) -> ValueColumns:
        """The values of the lines with these indices."""
        return ValueColumns(self.table.take(of_numbers(lines)), self.shape)

    def values(self, lines: Numbers) -> list[object]:
        """The values of the lines with these indices as Python objects, line after line."""
        return self.shape.values(self.table.take(of_numbers(lines)))


@dataclass(frozen=True, slots=True)
class ValueLists:
    """The values of each line, as a list of Python objects or as its pickled form."""

    lists: list[list[object] | bytes]
    kind: object = None

    def pickled(self) -> ValueLists:
        """The same values, all lists in their pickled form. Raises the error of `pickle` for values that have none."""
        return ValueLists(list(map(_pickled, self.lists)))

    def sizes(self) -> Numbers:
        """The size of each line's list in bytes, which is pickled: int64."""
        return np.fromiter(map(len, self.lists), np.int64, len(self.lists))

    def taken(self, lines: Numbers) -> ValueLists:
        """See `ValueColumns`."""
        return ValueLists(list(map(self.lists.__getitem__, lines.tolist())))

    def values(self, lines: Numbers) -> list[object]:
        """See `ValueColumns`."""
        return list(chain.from_iterable(map(_unpickled, map(self.lists.__getitem__, lines.tolist()))))


Values: TypeAlias = ValueColumns | ValueLists


@dataclass(frozen=True, slots=True)
class ElementTable(Table):
    """A line for each value, or for several values of a key and window; all arrays have one entry for each line."""

    key_hashes: pa.Array
    """The 16-byte hash of the key: of type `KEY_HASH`, without nulls."""
    keys: pa.Array
    """The key's encoding: of type `ENCODED`, without nulls."""
    numbers: list[Numbers]
    """The columns of `NAMES`: int64."""
    values: Values

    def __getitem__(self, column: int) -> Numbers:
        return self.numbers[column]

    def taken(self, indices: Numbers) -> ElementTable:
        """A copy of the lines at these indices."""
        where = of_numbers(indices)
        numbers = [column.take(indices) for column in self.numbers]
        return ElementTable(self.key_hashes.take(where), self.keys.take(where), numbers, self.values.taken(indices))

    def of_part(self, number: int, parts: int) -> ElementTable:
        """The lines whose keys belong to one of some parts of all keys; the same object if there is one part."""
        if parts == 1:
            return self
        return self.where(segment.key_positions(self.key_hashes) % np.uint64(parts) == np.uint64(number))

    def pieces(self, limit: int) -> Iterator[ElementTable]:
        """Tables with all lines in their order, and values of about `limit` bytes in each; lists are pickled.

        Raises the error of `pickle` for values that cannot be pickled.
        """
        values = self.values.pickled() if isinstance(self.values, ValueLists) else self.values
        whole = replace(self, values=values)
        edges = np.flatnonzero(np.diff((np.cumsum(values.sizes()) - 1) // limit)) + 1
        for begin, end in pairwise([0, *edges.tolist(), len(self)]):
            yield whole if end - begin == len(self) else whole.taken(np.arange(begin, end))

    def encode(self) -> pa.RecordBatch:
        """Encode the lines in their order, as a segment has them; there is at least one line.

        Raises the error of `pickle` for values that cannot be pickled.
        """
        columns, same = encoded_numbers(dict(zip(NAMES, self.numbers, strict=True)))
        metadata = {segment.SAME: json.dumps(same).encode()}
        if isinstance(self.values, ValueColumns):
            metadata[_SHAPE] = dumps(self.values.shape)
            columns |= {f"value{number}": column for number, column in enumerate(self.values.table.columns)}
        else:
            columns[_VALUES] = of_bytes(cast("list[bytes]", self.values.pickled().lists), pa.large_binary())
        return segment_lines(self.key_hashes, self.keys, columns, metadata)

    @classmethod
    def decode(cls, table: pa.RecordBatch) -> ElementTable:
        """Decode the lines of a segment; arrays may be read-only."""
        metadata = table.schema.metadata
        numbers = decoded_numbers(table, NAMES, json.loads(metadata[segment.SAME]))
        return cls(table.column(0), table.column(1), numbers, _values_in(table, metadata.get(_SHAPE)))


def by_kind(tables: Sequence[ElementTable]) -> list[ElementTable]:
    """Concatenate those tables whose values are of one kind, in their order; no table is empty."""
    kinds: dict[object, list[ElementTable]] = {}
    for table in tables:
        if len(table):
            kinds.setdefault(table.values.kind, []).append(table)
    return [_concatenated(of_kind) for of_kind in kinds.values()]


def joined(tables: Sequence[ElementTable]) -> ElementTable:
    """Concatenate tables in any order; values of several kinds become lists."""
    parts = by_kind(tables)
    if not parts:
        none = np.empty(0, np.int64)
        return ElementTable(pa.nulls(0, KEY_HASH), pa.nulls(0, ENCODED), [none] * len(NAMES), ValueLists([]))
    return parts[0] if len(parts) == 1 else _concatenated([_with_lists(part) for part in parts])


def _concatenated(tables: Sequence[ElementTable]) -> ElementTable:
    """Concatenate tables whose values are of one kind."""
    if len(tables) == 1:
        return tables[0]
    return ElementTable(
        pa.concat_arrays([table.key_hashes for table in tables]),
        pa.concat_arrays([table.keys for table in tables]),
        [np.concatenate(columns) for columns in zip(*(table.numbers for table in tables), strict=True)],
        concatenated_values([table.values for table in tables]),
    )


def concatenated_values(parts: Sequence[Values]) -> Values:
    """Concatenate values of one kind."""
    first = parts[0]
    if isinstance(first, ValueLists):
        return ValueLists(list(chain.from_iterable(part.lists for part in parts if isinstance(part, ValueLists))))
    tables = [part.table for part in parts if isinstance(part, ValueColumns)]
    columns = [pa.concat_arrays(list(columns)) for columns in zip(*(table.columns for table in tables), strict=True)]
    return ValueColumns(pa.RecordBatch.from_arrays(columns, schema=first.table.schema), first.shape)


def _with_lists(table: ElementTable) -> ElementTable:
    if isinstance(table.values, ValueLists):
        return table
    lists = ValueLists([[value] for value in table.values.shape.values(table.values.table)])
    return ElementTable(table.key_hashes, table.keys, table.numbers, lists)


def _values_in(table: pa.RecordBatch, shape: bytes | None) -> Values:
    if shape is None:
        return ValueLists(cast("list[list[object] | bytes]", table.column(_VALUES).to_pylist()))
    names = [name for name in table.schema.names if name.startswith("value")]
    return ValueColumns(table.select(names), cast(ValueSchema, loads(shape)))


def _pickled(values: list[object] | bytes) -> bytes:
    return values if isinstance(values, bytes) else dumps(values)


def _unpickled(values: list[object] | bytes) -> list[object]:
    return cast("list[object]", loads(values)) if isinstance(values, bytes) else values


def unpickled_lists(table: ElementTable) -> Iterator[list[object]]:
    """The values of each line as a list."""
    lists = _with_lists(table).values
    assert isinstance(lists, ValueLists), "they were made so"
    return map(_unpickled, lists.lists)
