"""What: a buffer of elements as columns, which are combined by key and slice, and the columns that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers, without_dictionary
from headrace.lowlevel.columnar.key_columns import Numbers, dense, first_indices, is_key_column, numbered
from headrace.lowlevel.records.column_batch import ColumnBatch, Times, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducers
from headrace.sdk.operators.combining.value_columns import ElementColumns, columns_of, widest
from headrace.sdk.windows.slices import Slices

MOST_ELEMENTS = 100_000
"""Number of elements in columns from which on they are combined and sent before the end of the bundle."""


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
        first = len(self.key.columns())
        return (*self.key.columns(), *range(first, first + 2 + len(self.reducers.kept)))

    def moved(self, places: Mapping[int, int]) -> Lifted:
        """See `ValueSchema`. Raises TypeError, because lifted elements always have a table of their own."""
        raise TypeError("accumulators stand in a table of their own")

    def starts(self, table: pa.RecordBatch) -> Numbers:
        """Start of each row's slice, microseconds UTC: int64."""
        return cast(Numbers, numbers_in(table.column(len(self.key.columns()))))

    def kept(self, table: pa.RecordBatch) -> list[pa.Array]:
        """The columns that the reducers keep, each with one entry for each row."""
        first = len(self.key.columns()) + 1
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
        keys = [pa.concat_arrays(parts) for parts in zip(*(each.keys for each in added), strict=True)]
        values = [pa.concat_arrays(parts) for parts in zip(*(each.values for each in added), strict=True)]
        times, bound = np.concatenate([each.times for each in added]), self._bound
        self.clear()
        return Addends(added[0].key, keys, values, times, bound)


def combined(addends: Addends, reducers: Reducers, slices: Slices) -> ColumnBatch:
    """Combine elements, at least one: one row for each key and slice, in the shape `Lifted`.

    The timestamp of a row is that of its first element.
    """
    distinct, numbers = np.unique(slices.starts(addends.times), return_inverse=True)
    groups, names = dense(numbered(addends.keys) * len(distinct) + numbers.reshape(-1))
    count = len(names)
    first = first_indices(groups, count)
    kept = reducers.reduced(groups, count, addends.values)
    counts = np.bincount(groups, minlength=count)
    places = of_numbers(first)
    columns = [*(column.take(places) for column in addends.keys), of_numbers(distinct[names % len(distinct)])]
    columns += [*kept, of_numbers(counts)]
    table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
    return ColumnBatch(table, addends.times[first], Lifted(addends.key, reducers, slices))


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
    places = {place: number for number, place in enumerate(key.shape.columns())}
    keys = [widest(without_dictionary(key.columns[place])) for place in places]
    if not all(map(is_key_column, keys)):
        return None
    times = np.asarray(batch.instants(), np.int64)
    return Addends(key.shape.moved(places), keys, kept, times, reducers.bound(kept))


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
