"""What: elements of many keys as columns, until they are combined by key and bucket of event time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnkeys import Numbers, dense, first_places, is_key_column, numbered
from headrace.lowlevel.columns import ColumnBatch, Shape, Times
from headrace.sdk.buckets import Buckets
from headrace.sdk.columns.lifted import Lifted
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducers, whole_numbers
from headrace.sdk.columns.shape import Single, Tuple


class Addends(NamedTuple):
    """Elements as columns."""

    key: Shape
    keys: list[pa.Array]
    """The columns that make the key, in its order."""
    values: list[Numbers]
    """For each part of the reducers that looks at values."""
    times: Times


class Tally:
    """Columns of elements until they are combined."""

    def __init__(self, reducers: Reducers, buckets: Buckets) -> None:
        self._reducers, self._buckets = reducers, buckets
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.size = 0
        """Elements so far."""
        self._bound = 0
        self._added: list[Addends] = []

    def takes(self, addends: Addends) -> bool:
        """Whether elements go together with those that are here: the same columns, and sums of at most 64 bits."""
        if self._bound + self._reducers.bound(addends.values) >= LARGEST_SUM:
            return False
        if not self._added:
            return True
        last = self._added[-1]
        return last.key == addends.key and [each.type for each in last.keys] == [each.type for each in addends.keys]

    def add(self, addends: Addends) -> None:
        """Add elements."""
        self._added.append(addends)
        self._bound += self._reducers.bound(addends.values)
        self.size += len(addends.times)

    def drain(self) -> ColumnBatch | None:
        """A row for each key and bucket, in the shape `Lifted`, at the time of the first element; None for nothing."""
        if not self.size:
            return None
        key = self._added[0].key
        keys = [pa.concat_arrays(parts) for parts in zip(*(each.keys for each in self._added), strict=True)]
        values = [np.concatenate(parts) for parts in zip(*(each.values for each in self._added), strict=True)]
        times = np.concatenate([each.times for each in self._added])
        self.clear()
        distinct, buckets = np.unique(self._buckets.starts(times), return_inverse=True)
        groups, names = dense(numbered(keys) * len(distinct) + buckets.reshape(-1))
        count = len(names)
        first = first_places(groups, count)
        kept = self._reducers.reduced(groups, count, values)
        counts = np.bincount(groups, minlength=count)
        places = of_numbers(first)
        columns = [*(column.take(places) for column in keys), of_numbers(distinct[names % len(distinct)])]
        columns += [of_numbers(column) for column in (*kept, counts)]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        return ColumnBatch(table, times[first], Lifted(key, self._reducers, self._buckets))


def addends_of(batch: ColumnBatch, reducers: Reducers) -> Addends | None:
    """Pairs of key and value that are columns already; None if they are not of a kind that can be combined as such."""
    key, value = batch.shape.part(0), batch.shape.part(1)
    if key is None or value is None or not key.columns():
        return None
    keys = [batch.table.column(place) for place in key.columns()]
    if not all(map(is_key_column, keys)) and not _is_none(keys):
        return None
    if reducers.of_tuples and not _has_width(value, len(reducers.parts)):
        return None
    values = []
    for place in reducers.kept:
        shape = value.part(place) if reducers.of_tuples else value
        column = _integers(batch.table, shape)
        if column is None:
            return None
        values.append(column)
    places = {place: number for number, place in enumerate(key.columns())}
    return Addends(key.moved(places), list(map(_wide, keys)), values, batch.times)


def _is_none(keys: Sequence[pa.Array]) -> bool:
    """Whether the key is None for all: that of what is combined globally."""
    return len(keys) == 1 and bool(pa.types.is_null(keys[0].type))


def _has_width(value: Shape, width: int) -> bool:
    """Whether values are tuples of so many."""
    return value.part(width - 1) is not None and value.part(width) is None


def _integers(table: pa.RecordBatch, shape: Shape | None) -> Numbers | None:
    if not isinstance(shape, Single):
        return None
    column = table.column(shape.column)
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type) or column.null_count:
        return None
    return cast(Numbers, numbers_in(column).astype(np.int64))


def _wide(column: pa.Array) -> pa.Array:
    """In the widest type of its kind, so that batches go together."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.int64()) if pa.types.is_signed_integer(column.type) else column


def addends_of_pairs(
    pairs: Sequence[tuple[object, object]], timestamps: Sequence[int], reducers: Reducers
) -> Addends | None:
    """The same of Python values."""
    # `zip(*pairs)` would make an iterator for each of them.
    found = _key_columns(list(map(itemgetter(0), pairs)))
    if found is None:
        return None
    payloads = list(map(itemgetter(1), pairs)) if reducers.kept else []
    if payloads and reducers.of_tuples:
        # Anything else is for the CombineFn to take, or to refuse.
        tuples = cast("Sequence[tuple[object, ...]]", payloads)
        if set(map(type, payloads)) != {tuple} or set(map(len, tuples)) != {len(reducers.parts)}:
            return None
    values = []
    for place in reducers.kept:
        items = cast("Sequence[tuple[object, ...]]", payloads)
        column = whole_numbers(list(map(itemgetter(place), items)) if reducers.of_tuples else payloads)
        if column is None:
            return None
        values.append(column)
    key, columns = found
    return Addends(key, columns, values, np.fromiter(timestamps, np.int64, len(timestamps)))


def _key_columns(keys: Sequence[object]) -> tuple[Shape, list[pa.Array]] | None:
    kinds = set(map(type, keys))
    if kinds == {tuple}:
        tuples = cast("Sequence[tuple[object, ...]]", keys)
        width = len(tuples[0])
        if not width or set(map(len, tuples)) != {width}:
            return None
        columns = [_key_column(items) for items in zip(*tuples, strict=True)]
        found = [column for column in columns if column is not None]
        return (Tuple(tuple(map(Single, range(width)))), found) if len(found) == width else None
    if kinds == {type(None)}:
        return Single(0), [pa.nulls(len(keys))]
    column = _key_column(keys)
    return None if column is None else (Single(0), [column])


def _key_column(keys: Sequence[object]) -> pa.Array | None:
    kinds = set(map(type, keys))
    try:
        if kinds == {str}:
            return pa.array(keys, pa.large_string())
        return pa.array(keys, pa.int64()) if kinds == {int} else None
    except (UnicodeEncodeError, OverflowError):
        # Half a pair of surrogates; more than 64 bits.
        return None
