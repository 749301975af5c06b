"""Records for one consumer as columns, until they are shipped: sorted by interval and key without looking at one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers, first_places, is_direct, is_key_column, numbered
from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.columns import ColumnBatch, Shape, shape_of_key
from headrace.lowlevel.intervals import Interval, IntervalMap, Wants, everything
from headrace.lowlevel.record import KeyExtractor
from headrace.lowlevel.tuplekeys import TupleKeys


class ColumnGather:
    """Batches of equal columns for one consumer of one stream.

    `encode` makes bytes of keys that may have equals of other types.
    """

    def __init__(self, consumer: str, stream: str, extract: KeyExtractor, encode: Callable[[object], bytes]) -> None:
        self._consumer, self._stream = consumer, stream
        self._extract, self._encode = extract, encode
        self._batches: list[ColumnBatch] = []
        self.size = 0
        """Records."""

    def key_of(self, batch: ColumnBatch) -> Shape | None:
        """The shape of the key, if it can be had of columns alone."""
        key = shape_of_key(self._extract, batch.shape)
        if key is None or not key.columns() or batch.ids is not None:
            return None
        return key if all(is_key_column(batch.table.column(place)) for place in key.columns()) else None

    def fits(self, batch: ColumnBatch) -> bool:
        """Whether the batch is made as those that are here."""
        if not self._batches:
            return True
        last = self._batches[-1]
        return last.shape == batch.shape and last.table.schema.types == batch.table.schema.types

    def add(self, batch: ColumnBatch) -> None:
        """Keep a batch that fits and has a key of columns."""
        self._batches.append(batch)
        self.size += len(batch)

    def parcels(
        self,
        intervals: IntervalMap,
        places_of: Callable[[Sequence[object]], list[tuple[bytes, bytes]]],
        wants: Wants = everything,
    ) -> Iterable[tuple[Interval, ColumnParcel]]:
        """Everything for intervals that somebody `wants`; the gathering starts anew."""
        batch = joined(self._batches)
        self._batches, self.size = [], 0
        key = self.key_of(batch)
        assert key is not None, "only batches with a key of columns are kept"
        columns = [batch.table.column(number) for number in key.columns()]
        numbers = numbered(columns)
        firsts = of_numbers(first_places(numbers, int(numbers.max()) + 1))
        places = places_of(self._keys(key, columns, batch.table.take(firsts), firsts))
        positions = intervals.positions_of([row for _, row in places])
        order = np.argsort(positions, kind="stable")
        return self._cut(batch, numbers, places, positions, order, intervals, wants)

    def _keys(self, key: Shape, columns: list[pa.Array], table: pa.RecordBatch, firsts: pa.Array) -> list[object]:
        """The key of each row of a table, or its bytes where equal ones could be of different types."""
        if len(columns) == 1 and is_direct(columns[0]) and _is_bare(key):
            return key.values(table)
        first = key.values(table.slice(0, 1))[0]
        alike = TupleKeys.like(first, self._encode)
        if alike is not None and alike.fits(columns):
            keys = cast("list[object]", alike.encoded([column.take(firsts) for column in columns]).to_pylist())
            if keys[0] == self._encode(first):
                return keys
        return list(map(self._encode, key.values(table)))

    def _cut(
        self,
        batch: ColumnBatch,
        numbers: Numbers,
        places: list[tuple[bytes, bytes]],
        positions: Numbers,
        order: Numbers,
        intervals: IntervalMap,
        wants: Wants,
    ) -> Iterable[tuple[Interval, ColumnParcel]]:
        """One parcel an interval; keys are in the order in which they came, a key's records too."""
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        by_key = np.argsort(rank[numbers], kind="stable")
        counts = np.bincount(numbers, minlength=len(places))[order]
        ends = np.cumsum(counts)
        sorted_positions = positions[order]
        edges = [0, *(np.flatnonzero(np.diff(sorted_positions)) + 1).tolist(), len(order)]
        for low, high in pairwise(edges):
            interval = intervals.intervals[int(sorted_positions[low])]
            if not wants(interval):
                continue
            its = [places[number] for number in order[low:high].tolist()]
            begin = int(ends[low - 1]) if low else 0
            records = batch.taken(by_key[begin : int(ends[high - 1])])
            parcel = ColumnParcel(
                self._consumer,
                self._stream,
                [encoded for encoded, _ in its],
                [row for _, row in its],
                array("q", counts[low:high].tobytes()),
                records,
            )
            yield interval, parcel


def joined(batches: list[ColumnBatch]) -> ColumnBatch:
    """One batch of several with equal columns."""
    first = batches[0]
    if len(batches) == 1:
        return first
    arrays = [
        pa.concat_arrays([batch.table.column(number) for batch in batches]) for number in range(first.table.num_columns)
    ]
    table = pa.RecordBatch.from_arrays(arrays, schema=first.table.schema)
    return ColumnBatch(table, np.concatenate([batch.times for batch in batches]), first.shape)


def _is_bare(key: Shape) -> bool:
    """Whether the key is the value of a column, rather than something made of it."""
    return type(key).__name__ == "Single"
