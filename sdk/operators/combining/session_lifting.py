"""What: elements of sessions combined before the shuffle, as far as they are close together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers, numbered
from headrace.lowlevel.columns import ColumnBatch, Shape
from headrace.lowlevel.computation import InlineComputation
from headrace.lowlevel.record import Batch, Emit
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.arrivals import InputForm
from headrace.sdk.buckets import EXACT
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducer, Reducers
from headrace.sdk.columns.sessions import runs_of_elements
from headrace.sdk.columns.tally import Addends, addends_of, addends_of_pairs
from headrace.sdk.contents import Combiner
from headrace.sdk.windows import IntervalWindow

MOST_ELEMENTS = 100_000
"""Elements kept as columns before they are combined and sent on."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """(key, (start, end, number of elements, what the reducers keep)), columns in this order; times in microseconds."""

    key: Shape
    width: int
    """Number of columns that the reducers keep."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        starts, ends, counts, *kept = (column.to_pylist() for column in table.columns[self.first :])
        items = zip(*kept, strict=True) if kept else [()] * table.num_rows
        return list(zip(self.key.values(table), zip(starts, ends, counts, items, strict=True), strict=True))

    @property
    def first(self) -> int:
        """Place of the column behind those of the key."""
        return len(self.key.columns())

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        return (*self.key.columns(), *range(self.first, self.first + 3 + self.width))

    def moved(self, places: Mapping[int, int]) -> SessionParts:
        """See `Shape`."""
        raise TypeError("parts of sessions stand in a table of their own")


class SessionLifting(InlineComputation):
    """Combines the elements of a bundle that are of one key and less than a gap apart, for a `ColumnSessions`.

    Args:
        combine: A CombineFn that reducers stand for.
        reducers: These.
        gap: Between sessions, microseconds.
        input_form: How elements come: PLAIN or WINDOWED.
        output_stream: Where the parts go.
    """

    def __init__(
        self, combine: Combiner, reducers: Reducers, gap: int, input_form: InputForm, output_stream: str
    ) -> None:
        self._combine, self._reducers, self._gap = combine, reducers, gap
        self._form, self._output_stream = input_form, output_stream
        self._watermark = MIN_TIMESTAMP
        self._added: list[Addends] = []
        self._bound = 0
        """What no sum of them can be beyond."""

    @property
    def is_pure(self) -> bool:
        """See `InlineComputation`: the engine combines in place of the CombineFn."""
        return True

    def setup(self) -> None:
        """Set the CombineFn up."""
        self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the CombineFn's does anything."""
        return self._combine.has_teardown()

    def begin_bundle(self, watermark: int) -> None:
        """Forget what an abandoned bundle left; elements whose own window is over at the watermark are late."""
        self._watermark = watermark
        self._added, self._bound = [], 0

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Keep elements until there are many, or the bundle ends."""
        if not len(batch):
            return
        addends = self._columns(batch)
        if addends is None:
            emit(self._output_stream, self._one_by_one(batch))
            return
        bound = self._reducers.bound(addends.values)
        if self._added and (not _alike(self._added[-1], addends) or self._bound + bound >= LARGEST_SUM):
            self.finish_bundle(emit)
        self._added.append(addends)
        self._bound += bound
        if sum(len(each.times) for each in self._added) >= MOST_ELEMENTS:
            self.finish_bundle(emit)

    def _columns(self, batch: Batch) -> Addends | None:
        if self._form is not InputForm.PLAIN:
            return None
        if isinstance(batch, ColumnBatch):
            addends = addends_of(batch, self._reducers)
        else:
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            addends = addends_of_pairs(pairs, batch.timestamps, self._reducers)
        if addends is None or self._reducers.bound(addends.values) >= LARGEST_SUM:
            return None
        return addends if -EXACT < int(addends.times.min()) <= int(addends.times.max()) < EXACT else None

    def _one_by_one(self, batch: Batch) -> Batch:
        """Elements that are no columns, each as a part of its own."""
        values: list[object] = []
        timestamps: list[int] = []
        for value, timestamp in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            windows: Sequence[IntervalWindow] = [IntervalWindow.of_micros(timestamp, timestamp + self._gap)]
            if self._form is not InputForm.PLAIN:
                payload, windows, _ = cast("tuple[object, Sequence[IntervalWindow], object]", payload)
            for window in windows:
                values.append((key, (window.start_us, window.end_us, 1, self._kept(payload))))
                timestamps.append(timestamp)
        return Batch(values, timestamps)

    def _kept(self, value: object) -> tuple[object, ...]:
        accumulator = self._combine.add_input(self._combine.create_accumulator(), value)
        parts = cast("tuple[object, ...]", accumulator) if self._reducers.of_tuples else (accumulator,)
        return kept_of(self._reducers, parts)

    def finish_bundle(self, emit: Emit) -> None:
        """Send the parts on."""
        if not self._added:
            return
        added, self._added, self._bound = self._added, [], 0
        keys = [pa.concat_arrays(parts) for parts in zip(*(each.keys for each in added), strict=True)]
        values = [np.concatenate(parts) for parts in zip(*(each.values for each in added), strict=True)]
        emit(self._output_stream, self._parts(added[0].key, keys, values, np.concatenate([a.times for a in added])))

    def _parts(self, key: Shape, keys: list[pa.Array], values: list[Numbers], times: Numbers) -> ColumnBatch:
        runs = runs_of_elements(numbered(keys), times, self._gap, times + self._gap <= self._watermark)
        first = np.flatnonzero(np.diff(runs.groups, prepend=-1))
        last = np.append(first[1:], len(times)) - 1
        sorted_times = times[runs.order]
        kept = self._reducers.reduced(runs.groups, runs.number, [column[runs.order] for column in values])
        places = of_numbers(runs.order[first])
        columns = [column.take(places) for column in keys]
        numbers = (sorted_times[first], sorted_times[last] + self._gap, last - first + 1, *kept)
        columns += [of_numbers(column) for column in numbers]
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        return ColumnBatch(table, sorted_times[first], SessionParts(key, len(kept)))


def kept_of(reducers: Reducers, accumulators: Sequence[object]) -> tuple[object, ...]:
    """What is kept of accumulators, one for each part of the reducers."""
    parts = [(reducers.parts[place], accumulators[place]) for place in reducers.kept]
    return tuple(cast("tuple[object, int]", one)[0] if part is Reducer.MEAN else one for part, one in parts)


def _alike(one: Addends, other: Addends) -> bool:
    return one.key == other.key and [each.type for each in one.keys] == [each.type for each in other.keys]
