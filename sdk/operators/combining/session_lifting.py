"""What: combining of elements of one session before the shuffle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import numbered
from headrace.lowlevel.records.column_batch import ColumnBatch, ValueSchema
from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, RunsCombiner
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import LARGEST_SUM, Reducer, Reducers
from headrace.sdk.operators.combining.combine_buffer import Addends, CombineBuffer, addends_of, addends_of_pairs
from headrace.sdk.operators.combining.session_runs import runs_of_elements
from headrace.sdk.windows import IntervalWindow
from headrace.sdk.windows.standard_windows import fits_int64


@stored_as("SessionPartsShape")
@dataclass(frozen=True, slots=True)
class SessionParts:
    """Shape of parts of sessions: (key, (start, end, number of elements, kept values)), with columns in this order.

    Times are microseconds UTC; all columns but those of the key are int64.
    """

    key: ValueSchema
    width: int
    """Number of columns that the reducers keep."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        starts, ends, counts, *kept = (column.to_pylist() for column in table.columns[self.first :])
        items = zip(*kept, strict=True) if kept else [()] * table.num_rows
        return list(zip(self.key.values(table), zip(starts, ends, counts, items, strict=True), strict=True))

    @property
    def first(self) -> int:
        """Index of the first column after those of the key."""
        return len(self.key.columns())

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (*self.key.columns(), *range(self.first, self.first + 3 + self.width))

    def moved(self, places: Mapping[int, int]) -> SessionParts:
        """See `ValueSchema`. Raises TypeError, because parts of sessions always have a table of their own."""
        raise TypeError("parts of sessions stand in a table of their own")


@named("SessionLifting")
class SessionLifting(RunsCombiner, InlineComputation):
    """Combines the elements of a bundle that have one key and are less than a gap apart, for a `ColumnSessions`.

    Args:
        combine: A CombineFn for which `reducers_of` gives reducers.
        reducers: The reducers of `combine`.
        gap: Gap between sessions, microseconds.
        input_form: Form of the input: PLAIN or WINDOWED.
        output_stream: Stream to which parts are sent.
    """

    def __init__(
        self, combine: AnyCombineFn, reducers: Reducers, gap: int, input_form: GroupingInputForm, output_stream: str
    ) -> None:
        self._combine, self._reducers, self._gap = combine, reducers, gap
        self._form, self._output_stream = input_form, output_stream
        self._watermark = MIN_TIMESTAMP
        self._buffer = CombineBuffer(reducers)

    @property
    def is_pure(self) -> bool:
        """See `InlineComputation`: the engine combines in place of the CombineFn."""
        return True

    def begin_bundle(self, watermark: int) -> None:
        """Remove the elements of an aborted bundle; elements whose own window has ended at `watermark` are late."""
        self._watermark = watermark
        self._buffer.clear()

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Buffer the elements of a batch; send parts if there are many elements or sums might overflow."""
        if not len(batch):
            return
        addends = self._columns(batch)
        if addends is None:
            emit(self._output_stream, self._one_by_one(batch))
            return
        if not self._buffer.takes(addends):
            self.finish_bundle(emit)
        self._buffer.add(addends)
        if self._buffer.is_full():
            self.finish_bundle(emit)

    def _columns(self, batch: Batch) -> Addends | None:
        if self._form is not GroupingInputForm.PLAIN:
            return None
        if isinstance(batch, ColumnBatch):
            addends = addends_of(batch, self._reducers)
        else:
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            addends = addends_of_pairs(pairs, batch.timestamps, self._reducers)
        if addends is None or self._reducers.bound(addends.values) >= LARGEST_SUM:
            return None
        return addends if fits_int64(addends.times) else None

    def _one_by_one(self, batch: Batch) -> Batch:
        """Parts of one element each, for elements that columns do not express."""
        values: list[object] = []
        timestamps: list[int] = []
        for value, timestamp in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            windows: Sequence[IntervalWindow] = [IntervalWindow.of_micros(timestamp, timestamp + self._gap)]
            if self._form is not GroupingInputForm.PLAIN:
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
        """Send the parts of all buffered elements."""
        if (addends := self._buffer.drain()) is not None:
            emit(self._output_stream, self._parts(addends))

    def _parts(self, addends: Addends) -> ColumnBatch:
        key, keys, values, times = addends
        runs = runs_of_elements(numbered(keys), times, self._gap, is_closed(times + self._gap, self._watermark))
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
    """The values to keep of accumulators, of which there is one for each part of the reducers."""
    parts = [(reducers.parts[place], accumulators[place]) for place in reducers.kept]
    return tuple(cast("tuple[object, int]", one)[0] if part is Reducer.MEAN else one for part, one in parts)
