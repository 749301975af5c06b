"""What: buffers of elements as columns, and of cells, which are the combined elements of one key and slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers, without_dictionary
from headrace.lowlevel.columnar.key_columns import (
    Numbers,
    dense,
    distinct_numbers,
    first_indices,
    is_key_column,
    numbered,
)
from headrace.lowlevel.records.column_batch import ColumnBatch, Times, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducers
from headrace.sdk.operators.combining.value_columns import ElementColumns, columns_of, widest
from headrace.sdk.windows.slices import Slices, slots_of

MOST_ELEMENTS = 200_000
"""Number of elements in columns from which on they are combined before the end of the bundle."""
MOST_CELLS = 400_000
"""Number of cells from which on they are merged, and sent if more than half of them are left."""
_SENT = 100_000
"""Greatest number of cells in a batch."""


@stored_as("LiftedShape")
@dataclass(frozen=True, slots=True)
class Lifted:
    """Shape of lifted elements: (key, (code of the slice, accumulator, number of elements, number lost)).

    The number lost is that of the elements that are dropped if the window is closed. The table has the columns of the
    key, then the start of the slice (int64), the columns that reducers keep, and the number of elements (int64).
    """

    key: ValueSchema
    reducers: Reducers
    slices: Slices

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        counts = self.counts(table)
        distinct, places = np.unique(self.starts(table), return_inverse=True)
        codes = list(map(self.slices.code, cast("list[int]", distinct.tolist())))
        sizes = counts.tolist()
        payloads = zip(
            [codes[place] for place in places.reshape(-1).tolist()],
            self.reducers.accumulators(self.kept(table), counts),
            sizes,
            sizes,
            strict=True,
        )
        return list(zip(self.key.values(table), payloads, strict=True))

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (*self.key.columns(), *range(self.first, self.first + 2 + len(self.reducers.kept)))

    @property
    def first(self) -> int:
        """Index of the first column behind those of the key, which may have one of them several times."""
        return len({*self.key.columns()})

    def moved(self, places: Mapping[int, int]) -> Lifted:
        """See `ValueSchema`. Raises TypeError, because lifted elements always have a table of their own."""
        raise TypeError("accumulators stand in a table of their own")

    def starts(self, table: pa.RecordBatch) -> Numbers:
        """Start of each row's slice, microseconds UTC: int64."""
        return cast(Numbers, numbers_in(table.column(self.first)))

    def kept(self, table: pa.RecordBatch) -> list[pa.Array]:
        """The columns that the reducers keep, each with one entry for each row."""
        first = self.first + 1
        return [table.column(place) for place in range(first, first + len(self.reducers.kept))]

    def counts(self, table: pa.RecordBatch) -> Numbers:
        """Number of elements in each row: int64."""
        return cast(Numbers, numbers_in(table.column(table.num_columns - 1)))


class Addends(NamedTuple):
    """Elements as columns; all columns have one entry for each element, in the same order."""

    key: ValueSchema
    keys: list[pa.Array]
    """The columns of the key, in the order of its items."""
    values: list[pa.Array]
    """What each part of the reducers that reads values keeps of them."""
    times: Times
    bound: int
    """An upper bound of the absolute value of all sums over the elements."""

    @property
    def types(self) -> list[pa.DataType]:
        """The types of the columns."""
        return [column.type for column in (*self.keys, *self.values)]


class CombineBuffer:
    """Buffers columns of elements until they are combined."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all elements."""
        self.size = 0
        """Number of elements in the buffer."""
        self._bound = 0
        """Upper bound of the absolute value of all sums over the elements."""
        self._added: list[Addends] = []

    def takes(self, addends: Addends) -> bool:
        """Whether the elements can be added: their columns are like those in the buffer, and no sum overflows."""
        if self._bound + addends.bound >= LARGEST_SUM:
            return False
        if not self._added:
            return True
        last = self._added[-1]
        return last.key == addends.key and last.types == addends.types

    def add(self, addends: Addends) -> None:
        """Add elements, for which `takes` is True."""
        self._added.append(addends)
        self._bound += addends.bound
        self.size += len(addends.times)

    def is_full(self) -> bool:
        """Whether the elements should be combined and sent before the end of the bundle."""
        return self.size >= MOST_ELEMENTS

    def drain(self) -> Addends | None:
        """Remove all elements, and return them; None for no elements."""
        if not self.size:
            return None
        added = self._added
        keys, values = _joined(each.keys for each in added), _joined(each.values for each in added)
        times, bound = np.concatenate([each.times for each in added]), self._bound
        self.clear()
        return Addends(added[0].key, keys, values, times, bound)


class SliceCells(NamedTuple):
    """Combined elements; all columns have one entry for each cell. Several cells may be of one key and slice."""

    key: ValueSchema
    keys: list[pa.Array]
    """The columns of the key, in the order of its items."""
    starts: Numbers
    """Start of the slice, microseconds UTC: int64."""
    kept: list[pa.Array]
    """What the reducers keep."""
    counts: Numbers
    """Number of elements: int64."""
    times: Times
    """Timestamp of the first element."""
    bound: int
    """See `Addends`."""

    @classmethod
    def of(cls, addends: Addends, reducers: Reducers, slices: Slices) -> SliceCells:
        """Combine elements, at least one: one cell for each key and slice, ordered by slice within a key."""
        key, keys, values, times, bound = addends
        starts, slots = slots_of(slices, times)
        groups, count = _groups(keys, slots)
        first, counts = first_indices(groups, count), np.bincount(groups, minlength=count)
        kept = reducers.reduced(groups, count, values)
        return cls(key, _taken(keys, first), starts[slots[first]], kept, counts, times[first], bound)

    @classmethod
    def merged(cls, parts: Sequence[SliceCells], reducers: Reducers) -> SliceCells:
        """Merge cells of equal types, in their order, to one for each key and slice. There must be one part."""
        if len(parts) == 1:
            return parts[0]
        keys, kept = _joined(part.keys for part in parts), _joined(part.kept for part in parts)
        starts, counts, times = (
            np.concatenate(columns)
            for columns in zip(*((part.starts, part.counts, part.times) for part in parts), strict=True)
        )
        groups, count = _groups(keys, distinct_numbers(starts)[1])
        first, merged_counts = first_indices(groups, count), np.zeros(count, np.int64)
        np.add.at(merged_counts, groups, counts)
        kept = reducers.reduced(groups, count, kept)
        bound = sum(part.bound for part in parts)
        return cls(parts[0].key, _taken(keys, first), starts[first], kept, merged_counts, times[first], bound)

    def batches(self, reducers: Reducers, slices: Slices) -> Iterator[ColumnBatch]:
        """The cells in the shape `Lifted`, `_SENT` in a batch."""
        keys = [widest(without_dictionary(column)) for column in self.keys]
        columns = [*keys, of_numbers(self.starts), *self.kept, of_numbers(self.counts)]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        for start in range(0, len(self.starts), _SENT):
            times = self.times[start : start + _SENT]
            yield ColumnBatch(table.slice(start, _SENT), times, Lifted(self.key, reducers, slices))

    @property
    def types(self) -> list[pa.DataType]:
        """The types of the columns of keys and of what is kept."""
        return [column.type for column in (*self.keys, *self.kept)]


def _groups(keys: Sequence[pa.Array], slots: Numbers) -> tuple[Numbers, int]:
    """The number of each row's key and slice, from 0 without gaps, and how many there are."""
    groups, names = dense(numbered(keys) * (int(slots.max()) + 1) + slots)
    return groups, len(names)


def _taken(columns: Sequence[pa.Array], indices: Numbers) -> list[pa.Array]:
    places = of_numbers(indices)
    return [column.take(places) for column in columns]


def _joined(parts: Iterable[Sequence[pa.Array]]) -> list[pa.Array]:
    """The columns of several tables, one after the other."""
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]


class CellBuffer:
    """Buffers elements as columns, and the cells that they are combined to, until the cells are sent."""

    def __init__(self, reducers: Reducers, slices: Slices) -> None:
        self._reducers, self._slices = reducers, slices
        self._elements = CombineBuffer()
        self.clear()

    def clear(self) -> None:
        """Remove everything."""
        self._elements.clear()
        self._cells: list[SliceCells] = []
        self._size = 0
        """Number of cells."""

    def add(self, addends: Addends, send: Callable[[ColumnBatch], None]) -> bool:
        """Add elements; False if their sum might overflow. Cells that cannot stay are sent before or afterwards."""
        if not self._elements.takes(addends):
            self.drain(send)
            if not self._elements.takes(addends):
                return False
        self._elements.add(addends)
        if self._elements.is_full():
            self._combine(send)
        return True

    def _combine(self, send: Callable[[ColumnBatch], None]) -> None:
        """Combine the elements; cells that these do not go with, and too many, are sent."""
        addends = self._elements.drain()
        if addends is None:
            return
        cells = SliceCells.of(addends, self._reducers, self._slices)
        if self._cells and not self._fits(cells):
            self._send(send)
        self._cells.append(cells)
        self._size += len(cells.starts)
        if self._size >= MOST_CELLS:
            before, self._cells = self._size, [SliceCells.merged(self._cells, self._reducers)]
            self._size = len(self._cells[0].starts)
            if self._size > before // 2:
                self._send(send)

    def _fits(self, cells: SliceCells) -> bool:
        last = self._cells[-1]
        if last.key != cells.key or last.types != cells.types:
            return False
        return sum(each.bound for each in (*self._cells, cells)) < LARGEST_SUM

    def drain(self, send: Callable[[ColumnBatch], None]) -> None:
        """Send everything."""
        self._combine(send)
        self._send(send)

    def _send(self, send: Callable[[ColumnBatch], None]) -> None:
        if self._cells:
            for batch in SliceCells.merged(self._cells, self._reducers).batches(self._reducers, self._slices):
                send(batch)
        self._cells, self._size = [], 0


def addends_of(batch: Batch, reducers: Reducers) -> Addends | None:
    """The elements of a batch of pairs (key, value); None if they cannot be combined as columns.

    They can if keys are of types that can be compared as columns, and if the reducers can read the values.
    """
    found = _in_columns(batch, reducers) if isinstance(batch, ColumnBatch) else _in_pairs(batch, reducers)
    if found is None:
        return None
    key, *items = found
    values = [reducers.parts[place].lifted(item) for place, item in zip(reducers.kept, items, strict=True)]
    kept = [column for column in values if column is not None]
    if len(kept) < len(values):
        return None
    places = {place: number for number, place in enumerate(dict.fromkeys(key.shape.columns()))}
    keys = [_key_column(key.columns[place]) for place in places]
    if not all(map(is_key_column, keys)):
        return None
    times = np.asarray(batch.instants(), np.int64)
    return Addends(key.shape.moved(places), keys, kept, times, reducers.bound(kept))


def _key_column(column: pa.Array) -> pa.Array:
    """The column as keys are buffered: text stays in a dictionary."""
    if not pa.types.is_dictionary(column.type) or not is_key_column(column):
        return widest(without_dictionary(column))
    # Numbers of 8 bits might be too small for the dictionaries of several batches together.
    return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary)


def _in_columns(batch: ColumnBatch, reducers: Reducers) -> list[ElementColumns] | None:
    """The keys, and what each part of the reducers reads; None if that is not columns."""
    pairs = ElementColumns(batch.shape, batch.table.columns)
    key, value = pairs.item(0), pairs.item(1)
    if key is None or value is None or not key.shape.columns():
        return None
    if not reducers.reads_items:
        return [key, *[value for _ in reducers.kept]]
    width = len(reducers.parts)
    items = [item for place in reducers.kept if (item := value.item(place)) is not None]
    is_alike = value.item(width - 1) is not None and value.item(width) is None
    return [key, *items] if is_alike and len(items) == len(reducers.kept) else None


def _in_pairs(batch: Batch, reducers: Reducers) -> list[ElementColumns] | None:
    """The same for pairs that are Python values."""
    pairs = cast("Sequence[tuple[object, object]]", batch.values)
    # `zip(*pairs)` would make an iterator for each of them.
    key = columns_of(list(map(itemgetter(0), pairs)))
    if key is None or not reducers.kept:
        return None if key is None else [key]
    payloads = list(map(itemgetter(1), pairs))
    if not reducers.reads_items:
        value = columns_of(payloads)
        return None if value is None else [key, *[value for _ in reducers.kept]]
    tuples = cast("Sequence[tuple[object, ...]]", payloads)
    if set(map(type, payloads)) != {tuple} or set(map(len, tuples)) != {len(reducers.parts)}:
        # The CombineFn accepts or rejects other values.
        return None
    found = [key]
    for place in reducers.kept:
        made = columns_of(list(map(itemgetter(place), tuples)))
        if made is None:
            return None
        found.append(made)
    return found
